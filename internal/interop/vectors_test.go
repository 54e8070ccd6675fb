package interop

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"filippo.io/torchwood"
	f_log "github.com/transparency-dev/formats/log"
	f_note "github.com/transparency-dev/formats/note"
	f_proof "github.com/transparency-dev/formats/proof"
	f_witness "github.com/transparency-dev/formats/witness"
	"github.com/transparency-dev/tessera"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// vectorFile is a file of testdata/vectors/tlog, read as any other project would.
type vectorFile struct {
	Parts map[string]string            `json:"parts"`
	Keys  map[string][]json.RawMessage `json:"keys"`

	Accept []map[string]json.RawMessage `json:"accept"`
	Verify []map[string]json.RawMessage `json:"verify"`
	Reject []map[string]json.RawMessage `json:"reject"`

	// proof.json and add_checkpoint.json
	LeafHash    string                       `json:"leafHash"`
	NotIncluded []map[string]json.RawMessage `json:"notIncluded"`
	Cases       []map[string]json.RawMessage `json:"cases"`
	States      map[string]struct {
		Size string `json:"size"`
		Root string `json:"root"`
	} `json:"states"`
}

func readVectors(t *testing.T, name string) *vectorFile {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "tlog", name))
	if err != nil {
		t.Fatal(err)
	}
	f := new(vectorFile)
	if err := json.Unmarshal(b, f); err != nil {
		t.Fatal(err)
	}
	return f
}

// join gives the bytes that stand in a file as pieces.
func (f *vectorFile) join(t *testing.T, list []json.RawMessage) []byte {
	t.Helper()
	var out []byte
	for _, v := range list {
		var s string
		if json.Unmarshal(v, &s) == nil {
			out = append(out, s...)
			continue
		}
		var o struct {
			Base64, Repeat, Use string
			Times               int
		}
		if err := json.Unmarshal(v, &o); err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(o.Base64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, b...)
		out = append(out, strings.Repeat(o.Repeat, o.Times)+f.Parts[o.Use]...)
	}
	return out
}

func member(t *testing.T, c map[string]json.RawMessage, name string) (s string) {
	t.Helper()
	if err := json.Unmarshal(c[name], &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// verifiers are the keys of a file that x/mod or formats can make a verifier of.
func (f *vectorFile) verifiers(t *testing.T) map[string]note.Verifier {
	t.Helper()
	out := map[string]note.Verifier{}
	for name, p := range f.Keys {
		v, err := f_note.NewVerifier(string(f.join(t, p)))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = v
	}
	return out
}

// otherwise collects where a peer does not do what the vectors say. Bounds and
// choices that are ours (docs/spec/…) do not count.
func (f *vectorFile) otherwise(t *testing.T, of string, accepts func(b []byte) bool) (refused, accepted []string) {
	t.Helper()
	look := func(cases []map[string]json.RawMessage, want bool) (out []string) {
		for _, c := range cases {
			var p []json.RawMessage
			if err := json.Unmarshal(c[of], &p); err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(member(t, c, "spec"), "docs/") && accepts(f.join(t, p)) != want {
				out = append(out, member(t, c, "rule"))
			}
		}
		slices.Sort(out)
		return out
	}
	return look(f.Accept, true), look(f.Reject, false)
}

// withURLs gives every witness line of a policy a URL, which some peers ask for.
func withURLs(b []byte) []byte {
	return regexp.MustCompile(`(?m)^([ \t]*witness[ \t]+[^ \t\n]+[ \t]+[^ \t\n]+)[ \t]*$`).ReplaceAll(b, []byte("$1 https://w.example/"))
}

// The two policy parsers are one piece of code. The first list is what they
// refuse.
var (
	policyRefused = []string{
		"'#' in names", "Unicode spaces are part of a name", "a comment of half a megabyte",
		"a group called quorum, and one called group", "names like keywords",
	}
	policyAccepted = []string{
		"CR LF", "CR at the end of the last line", "CR in a comment", "CR in an empty line", "U+001B in a comment",
		"U+007F in a comment", "U+007F in a name", "U+0085 as a line end", "U+00A0 as a blank", "U+2003 as a blank",
		"U+3000 before a keyword", "a blank without newline at the end", "a comment behind a log's URL", "a comment behind a name",
		"a comment behind items", "a comment without newline at the end", "a group in two groups", "a key that is no UTF-8",
		"a log key with a wrong id", "a log twice", "a log twice with other URLs", "a member of two groups",
		"a member twice in a group", "a witness key of type 0x01", "a witness twice", "form feed", "k = 0",
		"log with a name like a witness", "log with too many items", "log without a key", "no newline at the end",
		"one ML-DSA-44 key as two witnesses", "one key as two logs", "one key as two witnesses", "quorum before its definition",
		"two quorum lines", "two quorum lines that differ", "vertical tab as a blank",
	}
)

// TestParsersOverTheVectors runs the parsers of others over the published
// vectors, and pins where they do otherwise: docs/spec/peers.md says what follows.
func TestParsersOverTheVectors(t *testing.T) {
	notes := readVectors(t, "signed_note.json")
	keys := note.VerifierList(slices.Collect(maps.Values(notes.verifiers(t)))...)
	for _, peer := range []struct {
		name, file, member string
		accepts            func(b []byte) bool
		refused, accepted  []string
	}{
		{"x/mod note.Open", "signed_note.json", "note", func(b []byte) bool {
			_, err := note.Open(b, keys)
			var unverified *note.UnverifiedNoteError
			var invalid *note.InvalidSignatureError
			return err == nil || errors.As(err, &unverified) || errors.As(err, &invalid)
		}, nil, []string{
			"a newline in the base64", "base64 with bits behind its end", "bits behind the end of a known key's signature",
		}},
		{"formats note.NewVerifier", "verifier_key.json", "vkey", func(b []byte) bool {
			_, err := f_note.NewVerifier(string(b))
			return err == nil
		}, nil, []string{
			"U+0001 in the name", "base64 with bits behind its end", "carriage return in the base64", "id in upper case",
			"id of the same key under type 0x01", "newline behind it", "newline in the base64",
		}},
		{"torchwood.ParseCheckpoint", "checkpoint.json", "text", func(b []byte) bool {
			_, err := torchwood.ParseCheckpoint(string(b))
			return err == nil
		}, []string{
			"size 2^63",
		}, []string{
			"CR behind the root", "CR in the root", "bits behind its end", "empty origin",
		}},
		{"formats log.Checkpoint", "checkpoint.json", "text", func(b []byte) bool {
			_, err := new(f_log.Checkpoint).Unmarshal(b)
			return err == nil
		}, nil, []string{
			"CR behind the root", "CR in the root", "an extension line without newline", "bits behind its end", "empty extension line",
			"empty line before an extension", "empty line behind an extension", "empty line between extensions", "empty root",
			"hexadecimal root", "root of 31 bytes", "root of 33 bytes", "root of 64 bytes", "size 00", "size 007", "size 07",
			"two empty extension lines",
		}},
		{"formats proof.TLogProof", "proof.json", "proof", func(b []byte) bool {
			return new(f_proof.TLogProof).Unmarshal(b) == nil
		}, nil, []string{
			"CR LF before the checkpoint", "CR LF everywhere", "CR behind a hash", "CR behind the index", "CR within a hash",
			"a checkpoint without signatures", "a newline too many at the end", "a signature line with a hyphen",
			"a signed text that is no checkpoint", "an empty extension line", "an empty line within the hashes", "an unsigned checkpoint",
			"extra with CR", "extra with bits behind its end", "hash with bits behind its end", "index 00", "index 04",
			"invalid UTF-8 in a signature line", "no checkpoint", "no newline at the end", "size 07", "text behind the signatures",
			"two empty lines before the checkpoint",
		}},
		{"tessera.NewWitnessGroupFromPolicy", "policy.json", "policy", func(b []byte) bool {
			_, err := tessera.NewWitnessGroupFromPolicy(withURLs(b))
			return err == nil
		}, policyRefused, policyAccepted},
		{"formats witness.ParsePolicy", "policy.json", "policy", func(b []byte) bool {
			_, err := f_witness.ParsePolicy(withURLs(b))
			return err == nil
		}, policyRefused, policyAccepted},
	} {
		t.Run(peer.name, func(t *testing.T) {
			refused, accepted := readVectors(t, peer.file).otherwise(t, peer.member, peer.accepts)
			if !slices.Equal(refused, peer.refused) {
				t.Errorf("refuses\n%#v\nwant\n%#v", refused, peer.refused)
			}
			if !slices.Equal(accepted, peer.accepted) {
				t.Errorf("accepts\n%#v\nwant\n%#v", accepted, peer.accepted)
			}
		})
	}
}

// TestVerifiersOverTheVectors verifies the notes with x/mod and the verifiers of
// formats: they find what the vectors say, apart from what is pinned here.
func TestVerifiersOverTheVectors(t *testing.T) {
	keys := note.VerifierList(slices.Collect(maps.Values(readVectors(t, "signed_note.json").verifiers(t)))...)
	var otherwise []string
	seen := 0
	for _, file := range []string{"signed_note.json", "cosignature.json"} {
		f := readVectors(t, file)
		for _, c := range slices.Concat(f.Accept, f.Verify) {
			var pieces []json.RawMessage
			if err := json.Unmarshal(c["note"], &pieces); err != nil {
				t.Fatal(err)
			}
			var want map[string]json.RawMessage
			if err := json.Unmarshal(c["verify"], &want); err != nil {
				t.Fatal(err)
			}
			bad, lines := false, 0
			for _, v := range want {
				var found struct{ Lines int }
				if string(v) == `"bad"` {
					bad = true
				} else if err := json.Unmarshal(v, &found); err != nil {
					t.Fatal(err)
				}
				lines += found.Lines
			}
			n, err := note.Open(f.join(t, pieces), keys)
			var invalid *note.InvalidSignatureError
			got := 0
			if n != nil {
				got = len(n.Sigs)
			}
			if bad != errors.As(err, &invalid) || !bad && got != lines {
				otherwise = append(otherwise, member(t, c, "rule"))
			}
			seen++
		}
	}
	want := []string{
		"two cosignatures of one key: the later time counts", "the same line twice", // found once: the second is dropped
		"a good line does not excuse a bad one",
		"0x04: time 2^63", "0x06: time 2^63", "0x04: time 2^64-1",
		"0x06: a size with a leading zero", // signed as the number that it stands for
	}
	if seen < 90 || !slices.Equal(otherwise, want) {
		t.Errorf("of %d notes others are judged than\n%q\nwant\n%q", seen, otherwise, want)
	}
}

// split reads a proof or a request of the vectors, of which the form is right:
// number, hashes and checkpoint.
func split(t *testing.T, b []byte) (number int64, hashes []tlog.Hash, c torchwood.Checkpoint) {
	t.Helper()
	head, signed, _ := strings.Cut(string(b), "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		if digits, ok := strings.CutPrefix(line, "index "); ok {
			number, _ = strconv.ParseInt(digits, 10, 64)
		} else if digits, ok := strings.CutPrefix(line, "old "); ok {
			number, _ = strconv.ParseInt(digits, 10, 64)
		} else if h, err := tlog.ParseHash(line); err == nil {
			hashes = append(hashes, h)
		}
	}
	text := signed[:strings.LastIndex(signed, "\n\n")+1]
	c, err := torchwood.ParseCheckpoint(text)
	if err != nil {
		t.Skipf("beyond x/mod: %v", err)
	}
	if c.N > 1<<62 {
		t.Skip("beyond x/mod: it does not end")
	}
	return number, hashes, c
}

func hashOf(t *testing.T, s string) tlog.Hash {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != tlog.HashSize {
		t.Fatalf("%q is no hash", s)
	}
	return tlog.Hash(b)
}

// TestProofsOverTheVectors checks inclusion and consistency with x/mod.
func TestProofsOverTheVectors(t *testing.T) {
	f := readVectors(t, "proof.json")
	leaf := hashOf(t, f.LeafHash)
	checked := 0
	for _, cases := range []struct {
		list []map[string]json.RawMessage
		want bool
	}{{f.Accept, true}, {f.NotIncluded, false}} {
		for _, c := range cases.list {
			var pieces []json.RawMessage
			if err := json.Unmarshal(c["proof"], &pieces); err != nil {
				t.Fatal(err)
			}
			t.Run(member(t, c, "rule"), func(t *testing.T) {
				index, hashes, cp := split(t, f.join(t, pieces))
				if err := tlog.CheckRecord(hashes, cp.N, cp.Hash, index, leaf); (err == nil) != cases.want {
					t.Errorf("%v", err)
				}
				checked++
			})
		}
	}
	f = readVectors(t, "add_checkpoint.json")
	for _, c := range f.Cases {
		var status int
		if err := json.Unmarshal(c["status"], &status); err != nil {
			t.Fatal(err)
		}
		state := f.States[member(t, c, "state")]
		if n, err := strconv.ParseInt(state.Size, 10, 64); status != 200 && status != 422 || err != nil || n == 0 {
			continue // x/mod has no proofs from the empty tree
		}
		var pieces []json.RawMessage
		if err := json.Unmarshal(c["body"], &pieces); err != nil {
			t.Fatal(err)
		}
		t.Run(member(t, c, "rule"), func(t *testing.T) {
			old, hashes, cp := split(t, f.join(t, pieces))
			if err := tlog.CheckTree(hashes, cp.N, cp.Hash, old, hashOf(t, state.Root)); (err == nil) != (status == 200) {
				t.Errorf("%v, status %d", err, status)
			}
			checked++
		})
	}
	if checked < 50 {
		t.Errorf("only %d proofs were checked", checked)
	}
}
