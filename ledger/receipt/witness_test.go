package receipt

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/mldsa"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/trust"
)

// lattice is an ML-DSA-44 signer of another project, for witnesses and logs.
func lattice(t testing.TB, name, label string) (note.Signer, trust.VerifierKey) {
	t.Helper()
	private, err := mldsa.NewPrivateKey(mldsa.MLDSA44(), seed(label))
	if err != nil {
		t.Fatal(err)
	}
	k, err := trust.NewVerifierKey(name, trust.TypeMLDSA44, private.PublicKey().Bytes())
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256([]byte(name + "\n\x06")) // the signer does not look at the id
	s, err := cosign.NewMLDSASigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, binary.BigEndian.Uint32(h[:4]), base64.StdEncoding.EncodeToString(append([]byte{6}, seed(label)...))))
	if err != nil {
		t.Fatal(err)
	}
	return s, k
}

func policy(t testing.TB, lines ...string) *trust.Policy {
	t.Helper()
	p, err := trust.ParsePolicy([]byte(strings.Join(lines, "\n") + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// one judges a leaf both ways, as a bundle and as a tlog-proof, and requires that
// both say the same of the checkpoint.
func one(t *testing.T, w *world, cp []byte, file *trust.File, opts Options) *Report {
	t.Helper()
	r := Verify(forge(w.entries(7, 3), cp), file, opts)
	proof := VerifyTlogProof((&TlogProof{Index: 3, Proof: w.proof(3, 7), Checkpoint: cp}).Append(nil), leafOf(w.records[3]), file, opts)
	if r.Status != proof.Status || r.Stage != proof.Stage {
		t.Errorf("bundle: %s %s, tlog-proof: %s %s\n%s%s", r.Status, r.Stage, proof.Status, proof.Stage, text(r), text(proof))
	}
	for _, name := range []string{CheckTrust, CheckLogSignature, CheckWitnessQuorum, CheckFreshness} {
		a, _ := r.Find(name)
		if b, _ := proof.Find(name); a != b {
			t.Errorf("bundle: %+v, tlog-proof: %+v", a, b)
		}
	}
	return r
}

func TestCLM05_NestedPolicy(t *testing.T) {
	w := story(t)
	var signers []note.Signer
	var lines []string
	k, err := trust.NewVerifierKey(origin, trust.TypeEd25519, public("log"))
	if err != nil {
		t.Fatal(err)
	}
	lines = append(lines, "log "+k.String())
	for i, name := range []string{"a", "b", "c"} {
		s := newWitness(t, "eu.example/"+name)
		s.time += uint64(i)
		signers = append(signers, s)
		lines = append(lines, fmt.Sprintf("witness %s %s", strings.ToUpper(name), s.key))
	}
	pq, pqKey := lattice(t, "us.example/pq", "pq")
	signers = append(signers, pq)
	p := policy(t, append(lines, "witness PQ "+pqKey.String(), "group eu 2 A B C", "group us all PQ", "group both all eu us", "quorum both")...)
	file := w.trusts("event")

	r := one(t, w, w.checkpoint(7, signers[0], signers[2], pq), file, Options{Policy: p})
	wantVerified(t, "met", r)
	if c, _ := r.Find(CheckWitnessQuorum); !strings.HasPrefix(c.Detail, "2 of 2; group eu: 2 of 3, 2 needed, missing B (eu.example/b); cosigned A (eu.example/a) at 2026-07-28T00:00:00Z, C (eu.example/c) at 2026-07-28T00:00:02Z, PQ (us.example/pq) at ") {
		t.Errorf("got %s", c.Detail)
	}
	if r.Stage != Witnessed || len(r.Witnesses) != 4 || r.Quorum == nil || len(r.Quorum.Members) != 2 {
		t.Fatalf("stage %q, witnesses %+v, quorum %+v", r.Stage, r.Witnesses, r.Quorum)
	}
	a := Witness{Name: "A", VKey: signers[0].(*witness).key.String(), Status: trust.Cosigned, Time: "2026-07-28T00:00:00Z"}
	if b := (Witness{Name: "B", VKey: signers[1].(*witness).key.String(), Status: trust.Missing}); r.Witnesses[0] != a || r.Witnesses[1] != b {
		t.Errorf("got %+v", r.Witnesses)
	}
	eu := r.Quorum.Members[0]
	if eu.Name != "eu" || eu.Kind != "group" || !eu.Met || eu.Have != 2 || eu.Needed != 2 || eu.Of != 3 || eu.Time != "2026-07-28T00:00:00Z" || len(eu.Members) != 3 ||
		eu.Members[1].Kind != "witness" || eu.Members[1].Met || eu.Members[1].Time != "" {
		t.Errorf("got %+v", eu)
	}
	claims, not := strings.Join(r.Claims, "\n"), strings.Join(r.NotClaimed, "\n")
	for _, name := range []string{"A (eu.example/a)", "C (eu.example/c)", "PQ (us.example/pq)"} {
		if !strings.Contains(claims, name) || !strings.Contains(not, name) {
			t.Errorf("claims do not speak of %s:\n%s\n%s", name, claims, not)
		}
	}
	if strings.Contains(claims, "eu.example/b") {
		t.Errorf("claims speak of a witness that did not cosign: %s", claims)
	}

	r = one(t, w, w.checkpoint(7, signers[1], pq), file, Options{Policy: p})
	wantFailed(t, "a group is short", r, CheckWitnessQuorum)
	if f := r.Failures(CheckWitnessQuorum); len(f) != 1 || !strings.HasPrefix(f[0].Detail, "1 of 2; missing group eu; group eu: 1 of 3, 2 needed, missing A (eu.example/a), C (eu.example/c); cosigned B ") ||
		f[0].Expected != "at least 2" || f[0].Got != "1" {
		t.Errorf("got %+v", f)
	}
	if r.Quorum.Met || r.Quorum.Time != "" || r.Stage != "" || r.Witnesses[3].Status != trust.Cosigned {
		t.Errorf("got %+v, %q, %+v", r.Quorum, r.Stage, r.Witnesses)
	}

	broken := flipSignature(t, w.checkpoint(7, append(slices.Clone(signers[:3]), pq)...), 2)
	r = one(t, w, broken, file, Options{Policy: p})
	wantFailed(t, "one is bad", r, CheckWitnessQuorum)
	if last := r.Failures(CheckWitnessQuorum)[1]; r.Witnesses[1].Status != trust.Bad || r.Witnesses[1].Detail == "" || !strings.Contains(last.Detail, "bad B (eu.example/b)") {
		t.Errorf("got %+v, %+v", r.Witnesses[1], last)
	}
	// The document is the same whoever reads it.
	b, err := r.JSON()
	if err != nil || !bytes.Contains(b, []byte(`"status": "bad"`)) || !bytes.Contains(b, []byte(`"members": [`)) {
		t.Errorf("%v, %s", err, b)
	}
}

// A post-quantum witness counts by a trust file as well, and a cosignature of
// another tree or without a time does not.
func TestCLM05_LatticeWitness(t *testing.T) {
	w := story(t)
	pq, key := lattice(t, "pq.example", "pq")
	file := w.trusts("event")
	file.Witnesses, file.Quorum = []trust.VerifierKey{key}, 1
	r := one(t, w, w.checkpoint(7, pq), file, Options{})
	wantVerified(t, "cosigned", r)
	if r.Stage != Witnessed || r.Quorum.Name != "witnesses" || r.Witnesses[0].VKey != key.String() {
		t.Errorf("got %q, %+v", r.Stage, r.Quorum)
	}
	wantFailed(t, "missing", one(t, w, w.checkpoint(7), file, Options{}), CheckWitnessQuorum)
	wantFailed(t, "of another tree", one(t, w, append(w.checkpoint(7), lastLine(w.checkpoint(6, pq))...), file, Options{}), CheckWitnessQuorum)
	wantFailed(t, "flipped", one(t, w, flipSignature(t, w.checkpoint(7, pq), 1), file, Options{}), CheckWitnessQuorum)
}

// Any one of the logs that the policy lists for the origin.
func TestCLM05_AnyLogOfThePolicy(t *testing.T) {
	w := story(t)
	old, err := trust.NewVerifierKey(origin, trust.TypeEd25519, public("log"))
	if err != nil {
		t.Fatal(err)
	}
	young, err := trust.NewVerifierKey(origin, trust.TypeEd25519, public("young"))
	if err != nil {
		t.Fatal(err)
	}
	pq, pqKey := lattice(t, origin, "log-pq")
	p := policy(t, "log "+old.String(), "log "+young.String(), "log "+pqKey.String(), "quorum none")
	file := w.trusts("event")
	text7 := trust.Checkpoint{Origin: origin, Size: 7}
	copy(text7.Root[:], w.tree.HashAt(7))
	for name, s := range map[string]note.Signer{"the old key": noteSigner(t, origin, "log"), "the young key": noteSigner(t, origin, "young"), "the post-quantum key": pq} {
		cp := w.signNote(text7.Text(), s)
		r := one(t, w, cp, file, Options{Policy: p, Newest: cp})
		wantVerified(t, name, r)
		if r.Stage != Published || r.Quorum != nil || !strings.Contains(strings.Join(r.NotClaimed, "\n"), "No witness quorum was asked for") {
			t.Errorf("%s: stage %q, quorum %+v", name, r.Stage, r.Quorum)
		}
	}
	stranger := w.signNote(text7.Text(), noteSigner(t, origin, "fresh"))
	r := one(t, w, stranger, file, Options{Policy: p})
	wantFailed(t, "a stranger", r, CheckLogSignature)
	if f := r.Failures(CheckLogSignature)[0]; !strings.Contains(f.Detail, "unknown log key") || strings.Count(f.Expected, " or ") != 2 {
		t.Errorf("got %+v", f)
	}
	wantFailed(t, "the young key, by the trust file alone", one(t, w, w.signNote(text7.Text(), noteSigner(t, origin, "young")), file, Options{}), CheckLogSignature)
}

func TestCLM05_PolicyAndTrustFileContradict(t *testing.T) {
	w := story(t)
	w1 := newWitness(t, "w1.example")
	file := w.trusts("event")
	log := "log " + file.Log.String()
	other, _ := trust.NewVerifierKey("other.example", trust.TypeEd25519, public("other"))
	self, _ := trust.NewVerifierKey("self.example", trust.TypeCosignature, public("log"))
	for name, c := range map[string]struct {
		policy *trust.Policy
		quorum int
		want   string
	}{
		"another log":          {policy(t, "log "+other.String(), "quorum none"), 0, "does not list"},
		"the log as a witness": {policy(t, log, "witness s "+self.String(), "quorum s"), 0, "does not witness itself"},
		"no quorum":            {policy(t, log, "quorum none"), 1, "for none"},
		"not a policy":         {&trust.Policy{}, 0, "cannot be used"},
	} {
		file.Witnesses, file.Quorum = []trust.VerifierKey{w1.key}, c.quorum
		r := one(t, w, w.checkpoint(7, w1), file, Options{Policy: c.policy})
		if check, _ := r.Find(CheckTrust); r.Status != NotJudged || check.Status != NotChecked || !strings.Contains(check.Detail, c.want) {
			t.Errorf("%s: %s, %+v", name, r.Status, check)
		}
	}
	// The policy's quorum stands in place of the trust file's, and the report says so.
	file.Quorum = 1
	w2 := newWitness(t, "w2.example")
	r := one(t, w, w.checkpoint(7, w2), file, Options{Policy: policy(t, log, "witness two "+w2.key.String(), "quorum two")})
	wantVerified(t, "another quorum", r)
	if check, _ := r.Find(CheckTrust); !strings.Contains(check.Detail, "the trust file's own quorum, 1 of 1, is not asked") {
		t.Errorf("got %s", check.Detail)
	}
}

// KEY IN RECEIPT, for witnesses: fresh keys under the trusted names count for
// nothing, whatever they sign.
func TestCLM05_WitnessNamesAreNoKeys(t *testing.T) {
	w := story(t)
	real, fresh := newWitness(t, "w1.example"), newWitness(t, "w1.example")
	fresh.label = "fresh"
	fresh.key, _ = trust.NewVerifierKey("w1.example", trust.TypeCosignature, public("fresh"))
	file := w.trusts("event")
	file.Witnesses, file.Quorum = []trust.VerifierKey{real.key}, 1
	r := one(t, w, w.checkpoint(7, fresh), file, Options{})
	wantFailed(t, "fresh key", r, CheckWitnessQuorum)
	if f := r.Failures(CheckWitnessQuorum)[0]; !strings.HasPrefix(f.Detail, "0 of 1; missing w1.example; ") {
		t.Errorf("got %+v", f)
	}
}

func TestLOG11_Freshness(t *testing.T) {
	w := story(t)
	const t0 = 1785196800 // 2026-07-28T00:00:00Z
	at := func(name string, offset int) *witness {
		s := newWitness(t, name)
		s.time = uint64(t0 + offset)
		return s
	}
	file := w.trusts("event")
	file.Witnesses, file.Quorum = []trust.VerifierKey{newWitness(t, "a").key, newWitness(t, "b").key, newWitness(t, "c").key}, 2
	now := time.Unix(t0, 0)
	hour := time.Hour
	for _, c := range []struct {
		name    string
		signers []note.Signer
		now     time.Time
		age     time.Duration
		fails   []string
		want    string // in the detail
	}{
		{"not asked", []note.Signer{at("a", -99), at("b", 0)}, time.Time{}, 0, nil, "not asked for; the quorum is met by cosignatures since 2026-07-27T23:58:21Z"},
		{"fresh", []note.Signer{at("a", -60), at("b", 0)}, now, hour, nil, "since 2026-07-27T23:59:00Z, 1m0s before 2026-07-28T00:00:00Z; allowed are 1h0m0s"},
		{"exactly as old as allowed", []note.Signer{at("a", -3600), at("b", 0)}, now, hour, nil, "1h0m0s before"},
		{"older by less than a second", []note.Signer{at("a", -3600), at("b", 0)}, now.Add(1), hour, []string{CheckFreshness}, "1h0m1s before"},
		{"one of two is old", []note.Signer{at("a", -7200), at("b", 0)}, now, hour, []string{CheckFreshness}, "since 2026-07-27T22:00:00Z"},
		{"two of three are fresh", []note.Signer{at("a", -7200), at("b", 0), at("c", -10)}, now, hour, nil, "since 2026-07-27T23:59:50Z"},
		{"ahead within the tolerance", []note.Signer{at("a", 300), at("b", 300)}, now, hour, nil, "since 2026-07-28T00:05:00Z, 0s before"},
		{"ahead beyond it", []note.Signer{at("a", 301), at("b", 0)}, now, hour, []string{CheckFreshness}, "not met without cosignatures that state a time in the future: a at 2026-07-28T00:05:01Z"},
		{"ahead, and not needed", []note.Signer{at("a", 301), at("b", 0), at("c", -5)}, now, hour, nil, "not counted, because they state a time in the future: a at 2026-07-28T00:05:01Z"},
		{"ahead, and the rest is old", []note.Signer{at("a", 1<<40), at("b", 0), at("c", -3601)}, now, hour, []string{CheckFreshness}, "in the future: a at @"},
		{"no quorum at all", []note.Signer{at("a", 0)}, now, hour, []string{CheckWitnessQuorum}, "the witness quorum is not met"},
	} {
		r := one(t, w, w.checkpoint(7, c.signers...), file, Options{MaxAge: c.age, Now: c.now})
		if c.fails == nil {
			wantVerified(t, c.name, r)
		} else {
			wantFailed(t, c.name, r, c.fails...)
		}
		got, _ := r.Find(CheckFreshness)
		if !strings.Contains(got.Detail, c.want) {
			t.Errorf("%s: got %s", c.name, got.Detail)
		}
		if got.Status == Fail && (got.Expected == "" || got.Got == "") {
			t.Errorf("%s: does not say expected and got: %+v", c.name, got)
		}
		claimed := slices.ContainsFunc(r.Claims, func(s string) bool { return strings.HasPrefix(s, "Freshness: ") })
		if claimed != (got.Status == Pass) || (got.Status == Pass) != (c.age > 0 && c.fails == nil) {
			t.Errorf("%s: %s, claimed %v", c.name, got.Status, claimed)
		}
	}
	// What cannot be judged is not verified, and is no failure.
	opts := Options{MaxAge: hour, Now: now}
	for name, r := range map[string]*Report{
		"no time": one(t, w, w.checkpoint(7, at("a", 0), at("b", 0)), file, Options{MaxAge: hour}),
		"no quorum": func() *Report {
			loose := *file
			loose.Quorum = 0
			return one(t, w, w.checkpoint(7, at("a", 0), at("b", 0)), &loose, opts)
		}(),
	} {
		got, _ := r.Find(CheckFreshness)
		if r.Status != NotJudged || r.ExitCode() != 2 || len(r.Claims) != 0 || r.Stage != "" || got.Status != NotChecked || !strings.HasPrefix(got.Detail, "cannot be judged: ") {
			t.Errorf("%s: %s, %+v", name, r.Status, got)
		}
	}
	loose := *file
	loose.Quorum = 0
	wantFailed(t, "no quorum, and another log", one(t, w, w.signNote("x\n7\n"+strings.Repeat("A", 43)+"=\n", noteSigner(t, "x", "log")), &loose, opts),
		CheckLogSignature, CheckOrigin, CheckInclusion)
}

// The stage is what was shown, and each stage claims no more than its own.
func TestCLM05_ClaimsByStage(t *testing.T) {
	w := story(t)
	w1 := newWitness(t, "w1.example")
	file := w.trusts("event")
	file.Witnesses = []trust.VerifierKey{w1.key}
	unlogged := w.entries(7, 3)
	unlogged[0].Proof = nil
	for _, c := range []struct {
		name   string
		bundle []byte
		quorum int
		stage  Stage
		claims []string
		not    string
	}{
		{"without a checkpoint", w.build(unlogged, nil), 1, "", nil, "Non-equivocation: "},
		{"published", w.build(w.entries(7, 3), w.checkpoint(7)), 0, Published, []string{"Signature: ", "Inclusion: each receipt was logged and published: ", "Links: "}, "No witness quorum was asked for"},
		{"cosigned, not asked", w.build(w.entries(7, 3), w.checkpoint(7, w1)), 0, Published, []string{"Signature: ", "Inclusion: ", "Links: "}, "No witness quorum was asked for"},
		{"witnessed", w.build(w.entries(7, 3), w.checkpoint(7, w1)), 1, Witnessed, []string{"Signature: ", "Inclusion: ", "Links: ", "Witnesses: w1.example cosigned "}, "Non-equivocation beyond the witnesses: "},
	} {
		file.Quorum = c.quorum
		r := Verify(c.bundle, file, Options{})
		if r.Stage != c.stage || len(r.Claims) != len(c.claims) {
			t.Errorf("%s: stage %q, claims %q", c.name, r.Stage, r.Claims)
			continue
		}
		for i, want := range c.claims {
			if !strings.HasPrefix(r.Claims[i], want) {
				t.Errorf("%s: claims %q, want %q", c.name, r.Claims[i], want)
			}
		}
		not := strings.Join(r.NotClaimed, "\n")
		for _, want := range []string{c.not, "Truth: ", "Completeness: "} {
			if !strings.Contains(not, want) {
				t.Errorf("%s: not claimed lacks %q", c.name, want)
			}
		}
	}
}
