package vectors

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

func unhexes(t *testing.T, list []string) [][]byte {
	t.Helper()
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = unhex(t, s)
	}
	return out
}

func TestBND09_ATT08_Log(t *testing.T) {
	type rejectNote struct {
		Rule string `json:"rule"`
		Note string `json:"noteBase64"`
	}
	var doc struct {
		Description string   `json:"description"`
		Leaves      []string `json:"leaves"`
		Tree        []struct {
			Size   uint64     `json:"size"`
			Root   string     `json:"root"`
			Proofs [][]string `json:"proofs"`
		} `json:"tree"`
		NotInTree []struct {
			Rule     string   `json:"rule"`
			Index    uint64   `json:"index"`
			Size     uint64   `json:"size"`
			LeafHash string   `json:"leafHash"`
			Proof    []string `json:"proof"`
			Root     string   `json:"root"`
		} `json:"notInTree"`
		Keys map[string]string `json:"keys"`
		VKey struct {
			Accept []struct {
				Rule   string `json:"rule"`
				VKey   string `json:"vkey"`
				Name   string `json:"name"`
				ID     string `json:"id"`
				Type   byte   `json:"type"`
				Public string `json:"public"`
			} `json:"accept"`
			Reject []struct {
				Rule string `json:"rule"`
				VKey string `json:"vkey"`
			} `json:"reject"`
		} `json:"vkey"`
		Checkpoint struct {
			Accept []struct {
				Rule   string `json:"rule"`
				Text   string `json:"text"`
				Origin string `json:"origin"`
				Size   string `json:"size"`
				Root   string `json:"root"`
			} `json:"accept"`
			Reject []struct {
				Rule string `json:"rule"`
				Text string `json:"text"`
			} `json:"reject"`
		} `json:"checkpoint"`
		Note struct {
			Accept []struct {
				Rule     string   `json:"rule"`
				Note     string   `json:"noteBase64"`
				Text     string   `json:"text"`
				Lines    int      `json:"lines"`
				SignedBy []string `json:"signedBy"`
			} `json:"accept"`
			Reject      []rejectNote `json:"reject"`
			NotVerified []rejectNote `json:"notVerified"`
		} `json:"note"`
		Path []struct {
			Level any    `json:"level"`
			Index string `json:"index"`
			Width int    `json:"width"`
			Path  string `json:"path"`
		} `json:"path"`
	}
	load(t, "log.json", &doc)

	leaves := unhexes(t, doc.Leaves)
	for _, tree := range some(t, "tree", doc.Tree) {
		for i, p := range tree.Proofs {
			hash := tiles.LeafHashOf(leaves[i])
			root, err := proof.RootFromInclusionProof(rfc6962.DefaultHasher, uint64(i), tree.Size, hash[:], unhexes(t, p))
			if err != nil || hex.EncodeToString(root) != tree.Root {
				t.Errorf("leaf %d of %d: root %x, %v; want %s", i, tree.Size, root, err, tree.Root)
			}
		}
	}
	for _, c := range some(t, "notInTree", doc.NotInTree) {
		if proof.VerifyInclusion(rfc6962.DefaultHasher, c.Index, c.Size, unhex(t, c.LeafHash), unhexes(t, c.Proof), unhex(t, c.Root)) == nil {
			t.Errorf("%s: accepted", c.Rule)
		}
	}

	for _, c := range some(t, "vkey", doc.VKey.Accept) {
		k, err := trust.ParseVerifierKey(c.VKey)
		if err != nil || k.String() != c.VKey || k.Name != c.Name || fmt.Sprintf("%08x", k.ID) != c.ID || byte(k.Type) != c.Type || hex.EncodeToString(k.Public) != c.Public {
			t.Errorf("%s: got %+v, %v", c.Rule, k, err)
		}
	}
	for _, c := range some(t, "vkey reject", doc.VKey.Reject) {
		if _, err := trust.ParseVerifierKey(c.VKey); !errors.Is(err, trust.ErrVerifierKey) {
			t.Errorf("%s: got %v", c.Rule, err)
		}
	}

	for _, c := range some(t, "checkpoint", doc.Checkpoint.Accept) {
		cp, err := trust.ParseCheckpoint(c.Text)
		if err != nil || cp.Text() != c.Text || cp.Origin != c.Origin || strconv.FormatUint(cp.Size, 10) != c.Size || hex.EncodeToString(cp.Root[:]) != c.Root {
			t.Errorf("%s: got %+v, %v", c.Rule, cp, err)
		}
	}
	for _, c := range some(t, "checkpoint reject", doc.Checkpoint.Reject) {
		if cp, err := trust.ParseCheckpoint(c.Text); !errors.Is(err, trust.ErrCheckpoint) {
			t.Errorf("%s: got %+v, %v", c.Rule, cp, err)
		}
	}

	names := []string{"log", "witness-1", "witness-2"}
	keys := map[string]trust.VerifierKey{}
	for _, name := range names {
		k, err := trust.ParseVerifierKey(doc.Keys[name])
		if err != nil {
			t.Fatal(err)
		}
		keys[name] = k
	}
	for _, c := range some(t, "note", doc.Note.Accept) {
		n, err := trust.ParseNote(unb64(t, c.Note))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		signed := []string{}
		for _, name := range names {
			v, err := n.VerifyBy(keys[name])
			if err != nil {
				t.Errorf("%s: %s: %v", c.Rule, name, err)
			}
			if v.Lines > 0 {
				signed = append(signed, name)
			}
		}
		if d := cmp.Diff(c.SignedBy, signed); d != "" || n.Text != c.Text || len(n.Signatures) != c.Lines || string(n.Append(nil)) != string(unb64(t, c.Note)) {
			t.Errorf("%s: text %q, %d lines, signed by %s", c.Rule, n.Text, len(n.Signatures), d)
		}
	}
	for _, c := range some(t, "note reject", doc.Note.Reject) {
		if _, err := trust.ParseNote(unb64(t, c.Note)); !errors.Is(err, trust.ErrNote) {
			t.Errorf("%s: got %v", c.Rule, err)
		}
	}
	for _, c := range some(t, "note not verified", doc.Note.NotVerified) {
		n, err := trust.ParseNote(unb64(t, c.Note))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		refused := false
		for _, k := range keys {
			_, err := n.VerifyBy(k)
			refused = refused || errors.Is(err, trust.ErrNoteSignature)
		}
		if !refused {
			t.Errorf("%s: every known line verifies", c.Rule)
		}
	}

	for _, c := range some(t, "path", doc.Path) {
		n, err := strconv.ParseUint(c.Index, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		p := tiles.EntriesPath(n, c.Width)
		if level, ok := c.Level.(float64); ok {
			p = tiles.TilePath(int(level), n, c.Width)
		}
		if p.String() != c.Path {
			t.Errorf("got %s, want %s", p, c.Path)
		}
		if back, err := tiles.ParsePath(c.Path); err != nil || back != p {
			t.Errorf("%s is read as %+v, %v", c.Path, back, err)
		}
	}
}

func TestATT09_ATT11_ATT16_TrustFile(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Accept      []struct {
			Rule      string `json:"rule"`
			Text      string `json:"text"`
			Canonical string `json:"canonical"`
			Origin    string `json:"origin"`
			Quorum    int    `json:"quorum"`
			EventKeys int    `json:"eventKeys"`
			Witnesses int    `json:"witnesses"`
		} `json:"accept"`
		Reject []struct {
			Rule string `json:"rule"`
			Text string `json:"text"`
		} `json:"reject"`
		Judge []struct {
			Rule  string `json:"rule"`
			Trust string `json:"trust"`
			Leaf  string `json:"leaf"`
			At    []struct {
				LeafIndex uint64 `json:"leafIndex"`
				Reason    string `json:"reason"`
			} `json:"at"`
		} `json:"judge"`
	}
	load(t, "trust.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		f, err := trust.Parse([]byte(c.Text))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		if got := string(f.Append(nil)); got != c.Canonical || f.Origin() != c.Origin || f.Quorum != c.Quorum || f.EventKeys.Len() != c.EventKeys || len(f.Witnesses) != c.Witnesses {
			t.Errorf("%s: got\n%s\nwant\n%s", c.Rule, got, c.Canonical)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		if _, err := trust.Parse([]byte(c.Text)); !errors.Is(err, trust.ErrFile) {
			t.Errorf("%s: got %v", c.Rule, err)
		}
	}
	for _, c := range some(t, "judge", doc.Judge) {
		f, err := trust.Parse([]byte(c.Trust))
		if err != nil {
			t.Fatal(err)
		}
		rec, err := event.ParseRecord([]byte(c.Leaf))
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range c.At {
			_, err := f.EventKeys.Check(rec, at.LeafIndex)
			if got := string(trust.ReasonOf(err)); got != at.Reason || (err == nil) != (at.Reason == "") {
				t.Errorf("%s, leaf %d: got %q (%v), want %q", c.Rule, at.LeafIndex, got, err, at.Reason)
			}
		}
	}
}
