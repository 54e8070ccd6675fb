package interop

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"filippo.io/torchwood"
	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// nameOf is the name in a verifier key.
func nameOf(vkey string) string {
	name, _, _ := strings.Cut(vkey, "+")
	return name
}

func publicOf(t testing.TB, vkey string) ed25519.PublicKey {
	t.Helper()
	parts := strings.SplitN(vkey, "+", 3)
	raw, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(raw) != 33 {
		t.Fatalf("verifier key %q", vkey)
	}
	return raw[1:]
}

// cosignerKey is the verifier key of type 0x04 for a name and a public key.
func cosignerKey(name string, public ed25519.PublicKey) string {
	typed := append([]byte{4}, public...)
	h := sha256.Sum256(append([]byte(name+"\n"), typed...))
	return fmt.Sprintf("%s+%08x+%s", name, binary.BigEndian.Uint32(h[:]), base64.StdEncoding.EncodeToString(typed))
}

// tree is a log that grows in memory, on the algebra of x/mod.
type tree struct {
	origin string
	signer note.Signer
	vkey   string
	stored []tlog.Hash
	size   int64
	label  string
}

func newTree(t testing.TB, origin, label string, size int64) *tree {
	t.Helper()
	skey, vkey, err := note.GenerateKey(nil, origin)
	if err != nil {
		t.Fatal(err)
	}
	s, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	l := &tree{origin: origin, signer: s, vkey: vkey, label: label}
	l.grow(t, size)
	return l
}

// fork is a log with the same key and other leaves from the first on.
func (l *tree) fork(t testing.TB) *tree {
	f := &tree{origin: l.origin, signer: l.signer, vkey: l.vkey, label: l.label + "fork "}
	f.grow(t, l.size)
	return f
}

func (l *tree) grow(t testing.TB, to int64) {
	t.Helper()
	for ; l.size < to; l.size++ {
		h, err := tlog.StoredHashes(l.size, fmt.Append(nil, l.label, l.size), tlog.HashReaderFunc(l.read))
		if err != nil {
			t.Fatal(err)
		}
		l.stored = append(l.stored, h...)
	}
}

func (l *tree) read(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, x := range indexes {
		out[i] = l.stored[x]
	}
	return out, nil
}

func (l *tree) checkpoint(t testing.TB, size int64) string {
	t.Helper()
	root, err := tlog.TreeHash(size, tlog.HashReaderFunc(l.read))
	if err != nil {
		t.Fatal(err)
	}
	return l.sign(t, torchwood.Checkpoint{Origin: l.origin, Tree: tlog.Tree{N: size, Hash: root}}.String())
}

func (l *tree) sign(t testing.TB, text string) string {
	t.Helper()
	b, err := note.Sign(&note.Note{Text: text}, l.signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (l *tree) proof(t testing.TB, from, to int64) []tlog.Hash {
	t.Helper()
	if from == 0 || from >= to {
		return nil
	}
	p, err := tlog.ProveTree(to, from, tlog.HashReaderFunc(l.read))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (l *tree) request(t testing.TB, old, size int64) string {
	t.Helper()
	return request(fmt.Sprint(old), l.proof(t, old, size), l.checkpoint(t, size))
}

// request is a body of add-checkpoint.
func request(old string, proof []tlog.Hash, checkpoint string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "old %s\n", old)
	for _, h := range proof {
		fmt.Fprintf(&b, "%s\n", h)
	}
	return b.String() + "\n" + checkpoint
}

type answer struct {
	status      int
	contentType string
	body        string
}

func (w *witness) post(t testing.TB, body string) answer {
	t.Helper()
	resp, err := http.Post(w.url+"/add-checkpoint", "", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header.Get("Content-Type"), string(b)}
}

// opened verifies a checkpoint under the log's key and the keys of all these
// witnesses, by the code of transparency-dev.
func opened(t testing.TB, signed, logKey string, witnesses ...*witness) {
	t.Helper()
	lv, err := note.NewVerifier(logKey)
	if err != nil {
		t.Fatal(err)
	}
	verifiers := []note.Verifier{lv}
	for _, w := range witnesses {
		v, err := f_note.NewVerifierForCosignatureV1(w.vkey)
		if err != nil {
			t.Fatal(err)
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifiers...))
	if err != nil {
		t.Fatalf("%v\n%s", err, signed)
	}
	if len(n.Sigs) != len(verifiers) {
		t.Fatalf("%d signatures verify, want %d:\n%s", len(n.Sigs), len(verifiers), signed)
	}
}
