package trust

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"
)

// cosigned is a line of a witness made by hand, so that the time is ours.
func cosigned(t testing.TB, k VerifierKey, label string, at uint64, text string) NoteSignature {
	t.Helper()
	sig := binary.BigEndian.AppendUint64(nil, at)
	sig = append(sig, ed25519.Sign(eventKey(label), fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", at, text))...)
	if _, ok := k.Verify(text, sig); !ok {
		t.Fatal("the test's cosignature does not verify")
	}
	return NoteSignature{Name: k.Name, ID: k.ID, Sig: sig}
}

const tallyTime = 1785196800 // 2026-07-28T00:00:00Z

func TestCLM05_TallySaysWhoIsMissing(t *testing.T) {
	text := Checkpoint{Origin: origin, Size: 7}.Text()
	var keys []VerifierKey
	for _, name := range []string{"a", "b", "c"} {
		keys = append(keys, vkey(t, "witness.example/"+name, TypeCosignature, name))
	}
	flat := fmt.Sprintf("log %s\nwitness A %s\nwitness B %s\nwitness witness.example/c %s\n",
		vkey(t, origin, TypeEd25519, "log"), keys[0], keys[1], keys[2])
	line := func(i int, at uint64) NoteSignature {
		return cosigned(t, keys[i], string(rune('a'+i)), at, text)
	}
	broken := line(2, tallyTime)
	broken.Sig[20] ^= 1
	stranger := cosigned(t, vkey(t, "witness.example/b", TypeCosignature, "x"), "x", tallyTime, text)
	two, nested, none := flat+"group w 2 A B witness.example/c\nquorum w\n",
		flat+"group ab all A B\ngroup all all ab witness.example/c\nquorum all\n", flat+"quorum none\n"
	for _, c := range []struct {
		name, policy string
		lines        []NoteSignature
		want         string
		met          bool
		time         uint64
	}{
		{"one is missing", two, []NoteSignature{line(0, tallyTime), line(2, tallyTime+1)},
			"2 of 3; missing B (witness.example/b); cosigned A (witness.example/a) at 2026-07-28T00:00:00Z, witness.example/c at 2026-07-28T00:00:01Z; 2 needed", true, tallyTime},
		{"all are there: the second newest decides", two, []NoteSignature{line(0, tallyTime), line(1, tallyTime+2), line(2, tallyTime+1)},
			"3 of 3; cosigned A (witness.example/a) at 2026-07-28T00:00:00Z, B (witness.example/b) at 2026-07-28T00:00:02Z, witness.example/c at 2026-07-28T00:00:01Z; 2 needed", true, tallyTime + 1},
		{"nobody", two, nil, "0 of 3; missing A (witness.example/a), B (witness.example/b), witness.example/c; 2 needed", false, 0},
		{"one without a time", two, []NoteSignature{line(0, tallyTime), line(1, 0)},
			"1 of 3; missing B (witness.example/b) (its cosignature states no time), witness.example/c; cosigned A (witness.example/a) at 2026-07-28T00:00:00Z; 2 needed", false, 0},
		{"another key by the name of B", two, []NoteSignature{line(0, tallyTime), stranger},
			"1 of 3; missing B (witness.example/b), witness.example/c; cosigned A (witness.example/a) at 2026-07-28T00:00:00Z; 2 needed", false, 0},
		{"one twice", two, []NoteSignature{line(0, tallyTime), line(0, tallyTime+9)},
			"1 of 3; missing B (witness.example/b), witness.example/c; cosigned A (witness.example/a) at 2026-07-28T00:00:09Z; 2 needed", false, 0},
		{"one is bad", two, []NoteSignature{line(0, tallyTime), line(1, tallyTime), broken},
			"2 of 3; bad witness.example/c; cosigned A (witness.example/a) at 2026-07-28T00:00:00Z, B (witness.example/b) at 2026-07-28T00:00:00Z; 2 needed", true, tallyTime},
		{"a group is short", nested, []NoteSignature{line(0, tallyTime), line(2, tallyTime)},
			"1 of 2; missing group ab; group ab: 1 of 2, missing B (witness.example/b); cosigned A (witness.example/a) at 2026-07-28T00:00:00Z, witness.example/c at 2026-07-28T00:00:00Z; 2 needed", false, 0},
		{"the oldest of all", nested, []NoteSignature{line(0, tallyTime+5), line(1, tallyTime+4), line(2, tallyTime+6)},
			"2 of 2; cosigned A (witness.example/a) at 2026-07-28T00:00:05Z, B (witness.example/b) at 2026-07-28T00:00:04Z, witness.example/c at 2026-07-28T00:00:06Z; 2 needed", true, tallyTime + 4},
		{"one witness is the quorum", flat + "quorum B\n", []NoteSignature{line(0, tallyTime)}, "0 of 1; missing B (witness.example/b); 1 needed", false, 0},
		{"none is asked for", none, []NoteSignature{line(1, tallyTime)},
			"no quorum was asked for; 1 of 3 witnesses cosigned; cosigned B (witness.example/b) at 2026-07-28T00:00:00Z", true, 0},
		{"beyond the year 9999", flat + "quorum B\n", []NoteSignature{line(1, math.MaxInt64)},
			"1 of 1; cosigned B (witness.example/b) at @9223372036854775807; 1 needed", true, math.MaxInt64},
	} {
		p := must(ParsePolicy([]byte(c.policy)))(t)
		tally := p.Tally(&Note{Text: text, Signatures: c.lines})
		if got := tally.String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		if tally.Met() != c.met || tally.Time() != c.time {
			t.Errorf("%s: met %v, time %d; want %v, %d", c.name, tally.Met(), tally.Time(), c.met, c.time)
		}
		if bad := len(tally.Bad()) > 0; bad != (c.name == "one is bad") {
			t.Errorf("%s: bad %+v", c.name, tally.Bad())
		}
	}
	// A line for people has an end, however many witnesses there are.
	var many strings.Builder
	members := ""
	for i := range MaxWitnesses {
		fmt.Fprintf(&many, "witness w%d %s\n", i, vkey(t, fmt.Sprintf("w%d.example", i), TypeCosignature, fmt.Sprint(i)))
		members += fmt.Sprintf(" w%d", i)
	}
	p := must(ParsePolicy([]byte(many.String() + "group g all" + members + "\nquorum g\n")))(t)
	if got := p.Tally(&Note{Text: text}).String(); !strings.HasSuffix(got, "w7 (w7.example), 56 more; 64 needed") {
		t.Errorf("got %s", got)
	}
}

// Whatever the policy and whoever signed: the count agrees with Satisfied, the
// time is the largest one that still satisfies, and what is short is named.
func TestCLM05_TallyAgreesWithSatisfied(t *testing.T) {
	text := Checkpoint{Origin: origin, Size: 7}.Text()
	const n = 6
	var keys [n]VerifierKey
	for i := range keys {
		keys[i] = vkey(t, fmt.Sprintf("w%d", i), TypeCosignature, fmt.Sprint(i))
	}
	lines := map[[2]uint64]NoteSignature{}
	for i, k := range keys {
		for at := range uint64(5) {
			lines[[2]uint64{uint64(i), at}] = cosigned(t, k, fmt.Sprint(i), at, text)
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		p := &Policy{}
		var free []string // names that are no member yet
		for i, k := range keys {
			p.Witnesses = append(p.Witnesses, PolicyWitness{Name: k.Name, Key: keys[i]})
			free = append(free, k.Name)
		}
		for g := range rapid.IntRange(0, 5).Draw(r, "groups") {
			free = rapid.Permutation(free).Draw(r, "order")
			size := rapid.IntRange(1, len(free)).Draw(r, "size")
			group := PolicyGroup{Name: fmt.Sprintf("g%d", g), K: rapid.IntRange(1, size).Draw(r, "k"), Members: slices.Clone(free[:size])}
			p.Groups = append(p.Groups, group)
			free = append(slices.Clone(free[size:]), group.Name)
		}
		all := []string{QuorumNone}
		for _, w := range p.Witnesses {
			all = append(all, w.Name)
		}
		for _, g := range p.Groups {
			all = append(all, g.Name)
		}
		p.Quorum = rapid.SampledFrom(all).Draw(r, "quorum")
		if err := p.Validate(); err != nil {
			r.Fatal(err)
		}
		note := &Note{Text: text}
		times := map[string]uint64{}
		for i, k := range keys {
			if at := rapid.Uint64Range(0, 5).Draw(r, "time"); at < 5 { // 5 is no line
				note.Signatures = append(note.Signatures, lines[[2]uint64{uint64(i), at}])
				times[k.Name] = at
			}
		}
		tally := p.Tally(note)
		since := func(from, to uint64) bool {
			return p.Satisfied(func(w string) bool { return times[w] >= max(from, 1) && times[w] <= to })
		}
		if tally.Met() != since(1, 9) {
			r.Fatalf("met %v, Satisfied says %v\n%s", tally.Met(), since(1, 9), tally)
		}
		for limit := range uint64(6) {
			want := uint64(0)
			for at := uint64(1); at <= limit && p.Quorum != QuorumNone; at++ {
				if since(at, limit) {
					want = at
				}
			}
			if got := tally.TimeUpTo(limit); got != want {
				r.Fatalf("up to %d: time %d, want %d\n%s\n%s", limit, got, want, tally, p.Append(nil))
			}
		}
		if tally.Quorum == nil {
			return
		}
		line := "; " + tally.String() + "; "
		var walk func(part *Part)
		walk = func(part *Part) {
			if part.Met() != (part.Have() >= part.Needed) {
				r.Fatalf("%s: met %v with %d of %d", part.Name, part.Met(), part.Have(), part.Of())
			}
			named := strings.Contains(line, fmt.Sprintf("; group %s: %d of %d", part.Name, part.Have(), part.Of()))
			if part != tally.Quorum && part.Cosignature == nil && named != (part.Have() < part.Of()) {
				r.Fatalf("group %s with %d of %d in %s", part.Name, part.Have(), part.Of(), line)
			}
			for _, m := range part.Members {
				walk(m)
			}
		}
		walk(tally.Quorum)
	})
}

// What an invalid policy leaves open is not met, and nothing panics.
func TestCLM05_TallyOfAnInvalidPolicyIsNotMet(t *testing.T) {
	text := Checkpoint{Origin: origin, Size: 7}.Text()
	k := vkey(t, "w", TypeCosignature, "w")
	signed := &Note{Text: text, Signatures: []NoteSignature{cosigned(t, k, "w", 1, text)}}
	for name, p := range map[string]*Policy{
		"zero value":          {},
		"unknown quorum":      {Quorum: "x"},
		"unknown member":      {Witnesses: []PolicyWitness{{Name: "w", Key: k}}, Groups: []PolicyGroup{{"g", 2, []string{"w", "x"}}}, Quorum: "g"},
		"a group of itself":   {Groups: []PolicyGroup{{"g", 1, []string{"g"}}}, Quorum: "g"},
		"0 of 1":              {Witnesses: []PolicyWitness{{Name: "w", Key: k}}, Groups: []PolicyGroup{{"g", 0, []string{"w"}}}, Quorum: "g"},
		"an empty group":      {Groups: []PolicyGroup{{"g", 0, nil}}, Quorum: "g"},
		"less than no member": {Groups: []PolicyGroup{{"g", -1, nil}}, Quorum: "g"},
	} {
		if tally := p.Tally(signed); tally.Met() || tally.String() == "" {
			t.Errorf("%s: met, %s", name, tally)
		}
		if p.Validate() == nil {
			t.Errorf("%s: valid", name)
		}
	}
}

func TestCLM05_AnyOneLogOfThePolicy(t *testing.T) {
	text := Checkpoint{Origin: origin, Size: 7}.Text()
	lattice, latticeKey := latticeSigner(t, origin, "lattice")
	p := must(ParsePolicy([]byte(fmt.Sprintf("log %s\nlog %s\nlog %s\nquorum none\n",
		vkey(t, origin, TypeEd25519, "log"), latticeKey, vkey(t, "other.example/log", TypeEd25519, "other")))))(t)
	by := func(text string, labels ...string) *Note {
		signers := []note.Signer{}
		for _, l := range labels {
			switch l {
			case "lattice":
				signers = append(signers, lattice)
			case "other":
				signers = append(signers, logSigner(t, "other.example/log", "other"))
			default:
				signers = append(signers, logSigner(t, origin, l))
			}
		}
		return must(ParseNote(sign(t, text, signers...)))(t)
	}
	for _, c := range []struct {
		note *Note
		want VerifierKey
	}{
		{by(text, "log"), vkey(t, origin, TypeEd25519, "log")},
		{by(text, "lattice"), latticeKey},
		{by(text, "other", "log", "stranger"), vkey(t, origin, TypeEd25519, "log")},
	} {
		if got, err := p.LogSignature(c.note, origin); err != nil || got.ID != c.want.ID {
			t.Errorf("got %s, %v; want %s", got, err, c.want)
		}
	}
	for name, n := range map[string]*Note{"a stranger": by(text, "stranger"), "a log of another origin": by(text, "other")} {
		if _, err := p.LogSignature(n, origin); !errors.Is(err, ErrUnknownLog) {
			t.Errorf("%s: %v", name, err)
		}
	}
	bad := by(text, "log", "other")
	bad.Signatures[1].Sig[3] ^= 1
	if _, err := p.LogSignature(bad, origin); !errors.Is(err, ErrNoteSignature) {
		t.Errorf("a bad line of another listed log: %v", err)
	}
}

func TestCLM05_PolicyBesideATrustFile(t *testing.T) {
	f := sampleFile(t)
	log, w := f.Log.String(), vkey(t, "v.example", TypeCosignature, "v").String()
	for _, c := range []struct{ name, text, want string }{
		{"lists the log", "log " + log + "\nwitness v " + w + "\nquorum v\n", ""},
		{"lists others as well", "log " + vkey(t, "other", TypeEd25519, "other").String() + "\nlog " + log + "\nwitness v " + w + "\nquorum v\n", ""},
		{"another log", "log " + vkey(t, "other", TypeEd25519, "other").String() + "\nwitness v " + w + "\nquorum v\n", "does not list the trust file's log key"},
		{"another key of the log", "log " + vkey(t, origin, TypeEd25519, "other").String() + "\nwitness v " + w + "\nquorum v\n", "does not list the trust file's log key"},
		{"no log", "witness v " + w + "\nquorum v\n", "does not list the trust file's log key"},
		{"the log is a witness", "log " + log + "\nwitness v " + vkey(t, "v.example", TypeCosignature, "log").String() + "\nquorum v\n", "does not witness itself"},
		{"no quorum", "log " + log + "\nquorum none\n", "asks for 2 of 3 witnesses, and the policy for none"},
	} {
		p := must(ParsePolicy([]byte(c.text)))(t)
		err := f.CheckPolicy(p)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	f.Quorum = 0
	if err := f.CheckPolicy(must(ParsePolicy([]byte("log " + log + "\nquorum none\n")))(t)); err != nil {
		t.Errorf("nobody asks for a quorum: %v", err)
	}
}
