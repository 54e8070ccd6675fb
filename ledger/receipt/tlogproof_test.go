package receipt

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	reference "github.com/transparency-dev/formats/proof"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

func leafOf(rec *event.Record) []byte {
	return event.AppendLeaf(nil, rec.EventBytes, rec.SignatureBytes)
}

// Event, proof and checkpoint give an answer; a wrong index, size, sibling or
// root each gives another.
func TestBND09_TlogProof(t *testing.T) {
	w := story(t)
	cp := w.checkpoint(7)
	leaf := leafOf(w.records[3])
	build := func(index uint64, proof [][]byte, cp []byte) []byte {
		return (&TlogProof{Index: index, Proof: proof, Checkpoint: cp}).Append(nil)
	}
	good, err := BuildTlogProof(3, w.proof(3, 7), cp)
	if err != nil {
		t.Fatal(err)
	}
	r := VerifyTlogProof(good, leaf, w.trusts("event"), Options{})
	wantVerified(t, "leaf 3", r)
	if c, _ := r.Find(CheckInclusion); c.Status != Pass || r.TreeSize != 7 || r.Counts.Entries != 1 {
		t.Errorf("got %+v, %+v", c, r.Counts)
	}
	proof := w.proof(3, 7)
	sibling := [][]byte{flip(proof[0]), proof[1], proof[2]}
	forgedRoot := trust.Checkpoint{Origin: origin, Size: 7}
	for _, c := range []struct {
		name   string
		text   []byte
		leaf   []byte
		checks []string
	}{
		{"wrong index", build(2, proof, cp), leaf, []string{CheckInclusion}},
		{"index beyond the size", build(7, proof, cp), leaf, []string{CheckLeafIndex}},
		{"index beyond 2^53", build(1<<60, proof, cp), leaf, []string{CheckLeafIndex}},
		{"wrong size", build(3, proof, w.checkpoint(6)), leaf, []string{CheckInclusion}},
		{"wrong sibling", build(3, sibling, cp), leaf, []string{CheckInclusion}},
		{"wrong root", build(3, proof, w.signNote(forgedRoot.Text(), noteSigner(t, origin, "log"))), leaf, []string{CheckInclusion}},
		{"wrong leaf", good, leafOf(w.records[0]), []string{CheckInclusion}},
		{"leaf re-signed", good, leafOf(resign(w.records[3], "fresh")), []string{CheckEventSignature, CheckInclusion}},
		{"one hash too many", build(3, append(w.proof(3, 7), proof[0]), cp), leaf, []string{CheckProofLength}},
		{"one hash too few", build(3, proof[1:], cp), leaf, []string{CheckProofLength}},
		{"log signature flipped", build(3, proof, flipSignature(t, cp, 0)), leaf, []string{CheckLogSignature}},
		{"leaf is no record", good, []byte("{}"), []string{CheckSchema}},
		{"no proof", []byte("x"), leaf, []string{CheckFormat}},
	} {
		wantFailed(t, c.name, VerifyTlogProof(c.text, c.leaf, w.trusts("event"), Options{}), c.checks...)
	}
	for name, r := range map[string]*Report{
		"no trust": VerifyTlogProof(good, leaf, nil, Options{}),
		"no leaf":  VerifyTlogProof(good, nil, w.trusts("event"), Options{}),
		"no proof": VerifyTlogProof(nil, leaf, w.trusts("event"), Options{}),
	} {
		if r.Status != NotJudged {
			t.Errorf("%s: %s", name, text(r))
		}
	}
	r = VerifyTlogProof(build(5, w.proof(5, 7), cp), leafOf(w.records[5]), w.trusts("event"), Options{})
	wantVerified(t, "later event of a chain", r)
	if c, _ := r.Find(CheckChain); c.Status != NotChecked {
		t.Errorf("the chain of one leaf is called %s", c.Status)
	}
}

func TestBND09_TlogProofHasOneSpelling(t *testing.T) {
	w := story(t)
	cp := w.checkpoint(7)
	good, err := BuildTlogProof(3, w.proof(3, 7), cp)
	if err != nil {
		t.Fatal(err)
	}
	var theirs reference.TLogProof
	if err := theirs.Unmarshal(good); err != nil || theirs.Index != 3 || len(theirs.Hashes) != 3 {
		t.Errorf("the reference reads %+v, %v", theirs, err)
	}
	single := story(t)
	one, err := BuildTlogProof(0, nil, single.checkpoint(1))
	if err != nil {
		t.Fatal(err)
	}
	extra := replace(t, good, "index 3\n", "extra AQI=\nindex 3\n")
	for name, b := range map[string][]byte{"good": good, "one leaf": one, "extra": extra, "empty extra": replace(t, good, "index 3\n", "extra \nindex 3\n")} {
		p, err := ParseTlogProof(b)
		if err != nil || !bytes.Equal(p.Append(nil), b) {
			t.Errorf("%s: comes back as %+v, %v", name, p, err)
		}
	}
	wantVerified(t, "extra is not used", VerifyTlogProof(extra, leafOf(w.records[3]), w.trusts("event"), Options{}))
	hash := b64.EncodeToString(w.proof(3, 7)[0]) + "\n"
	for name, b := range map[string][]byte{
		"empty":               nil,
		"other version":       replace(t, good, "proof@v1", "proof@v2"),
		"carriage returns":    bytes.ReplaceAll(good, []byte("\n"), []byte("\r\n")),
		"no index":            replace(t, good, "index 3\n", ""),
		"leading zero":        replace(t, good, "index 3\n", "index 03\n"),
		"signed index":        replace(t, good, "index 3\n", "index +3\n"),
		"index beyond 2^64":   replace(t, good, "index 3\n", "index 18446744073709551616\n"),
		"space after":         replace(t, good, "index 3\n", "index 3 \n"),
		"extra after index":   replace(t, good, "index 3\n", "index 3\nextra AQI=\n"),
		"extra twice":         replace(t, good, "index 3\n", "extra AQI=\nextra AQI=\nindex 3\n"),
		"extra unpadded":      replace(t, good, "index 3\n", "extra AQI\nindex 3\n"),
		"hash unpadded":       replace(t, good, hash, strings.Replace(hash, "=", "", 1)),
		"hash of 31 bytes":    replace(t, good, hash, b64.EncodeToString(make([]byte, 31))+"\n"),
		"too many hashes":     replace(t, good, hash, strings.Repeat(hash, MaxProofHashes)),
		"no empty line":       replace(t, good, "\n\n"+origin, "\n"+origin),
		"two empty lines":     replace(t, good, "\n\n"+origin, "\n\n\n"+origin),
		"checkpoint cut":      good[:len(good)-1],
		"bytes after":         append(bytes.Clone(good), 'x'),
		"no checkpoint":       good[:bytes.Index(good, []byte("\n\n"))+2],
		"too large":           append(bytes.Clone(good), make([]byte, MaxTlogProofBytes)...),
		"checkpoint of 01":    replace(t, good, "\n7\n", "\n07\n"),
		"magic alone":         []byte(tlogProofMagic + "\n"),
		"extra without index": []byte(tlogProofMagic + "extra AQI=\n\n" + string(cp)),
	} {
		if p, err := ParseTlogProof(b); !errors.Is(err, ErrTlogProof) {
			t.Errorf("%s: got %+v, %v; want ErrTlogProof", name, p, err)
		}
	}
	for name, err := range map[string]error{
		"index":  second(BuildTlogProof(7, w.proof(3, 7), cp)),
		"length": second(BuildTlogProof(3, w.proof(3, 7)[1:], cp)),
		"hash":   second(BuildTlogProof(3, [][]byte{{1}, {2}, {3}}, cp)),
		"note":   second(BuildTlogProof(3, w.proof(3, 7), []byte("x"))),
	} {
		if err == nil {
			t.Errorf("%s: built", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }
