package vault

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"testing"

	"counterfoil/ledger/commit"

	"pgregory.net/rapid"
)

// TestPRV01_PurgeThenSuppress: nothing leads back, and nothing is affected.
func TestPRV01_PurgeThenSuppress(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	fillAttempt(t, v, 1)
	id, key := attempt(1)
	for _, step := range []struct {
		to   Privacy
		n    int
		want Privacy
	}{
		{Redacted, 1, Redacted}, {Redacted, 0, Redacted}, {Purged, 1, Purged}, {Redacted, 0, Purged}, {Purged, 0, Purged},
	} {
		n, err := v.Lower(step.to, []string{id})
		must(t, err)
		p, err := v.Privacy(id)
		must(t, err)
		if n != step.n || p != step.want {
			t.Errorf("to %s: %d affected, then %s; want %d, %s", step.to, n, p, step.n, step.want)
		}
		must(t, v.Close())
		v = open(t, dir)
	}
	mustBeErased(t, v, 1)
	for _, to := range []Privacy{Active, 0, Purged + 1} {
		_, err := v.Lower(to, []string{id})
		mustBe(t, err, ErrInvalid)
	}
	// One that the vault never had: an older copy of its key is no key.
	other, otherKey := attempt(2)
	n, err := v.Lower(Redacted, []string{other})
	must(t, err)
	_, err = v.Privacy(other)
	mustBe(t, err, ErrNotFound)
	if n != 0 {
		t.Errorf("%d affected", n)
	}
	_, err = v.Lower(Purged, []string{other})
	must(t, err)
	mustBe(t, v.Put(other, otherKey), ErrErased)
	mustBe(t, v.Put(id, key), ErrErased)
}

// TestPRV01_ARedactedAttemptKeepsItsKeyAlone: and takes no body any more.
func TestPRV01_ARedactedAttemptKeepsItsKeyAlone(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	fillAttempt(t, v, 1)
	id, key := attempt(1)
	_, err := v.Lower(Redacted, []string{id})
	must(t, err)
	for range 2 {
		mustHaveKey(t, v, 1)
		must(t, v.Put(id, key)) // no error, and no way back
		_, berr := v.Body(id, "s", "large")
		_, oerr := v.Opening(id, "s", "small")
		_, lerr := v.Bodies(id)
		for _, err := range []error{berr, oerr, lerr, v.PutBody(id, "s", "new", nil, commit.Raw)} {
			mustBe(t, err, ErrRedacted)
		}
		if n := rowsOf(t, v, rowBody) + rowsOf(t, v, rowChunk) + rowsOf(t, v, rowPending); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		must(t, v.Close())
		v = open(t, dir)
	}
}

// TestPRV01_ARedactionThatWasKilledIsFinished: right after its commit point.
func TestPRV01_ARedactionThatWasKilledIsFinished(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	fillAttempt(t, v, 1)
	fillAttempt(t, v, 2)
	id, _ := attempt(1)
	_, err := v.lower(Redacted, id)
	must(t, err)
	w := open(t, copyDir(t, dir))
	_, err = w.Body(id, "s", "large")
	mustBe(t, err, ErrRedacted)
	other, _ := attempt(2)
	if list, err := w.Bodies(other); err != nil || len(list) != 2 || rowsOf(t, w, rowPending) != 0 {
		t.Errorf("the other attempt: %v, %v; %d pending", list, err, rowsOf(t, w, rowPending))
	}
}

// TestPRV01_PRV12_StatesLeadOneWay drives a vault with a model: states never go
// back, a body is there as long as its attempt is active, and an object as long as
// somebody refers to it, over restarts.
func TestPRV01_PRV12_StatesLeadOneWay(t *testing.T) {
	contents := [][]byte{[]byte("one"), bytes.Repeat([]byte("two "), 40_000)}
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "vault")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		openIt := func() *Vault {
			v, err := Open(dir, testSeal, Options{MinFree: 1})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		v := openIt()
		defer func() { _ = v.Close() }()
		const attempts = 3
		var state [attempts]Privacy // 0: the vault never had it
		var body [attempts]bool
		refs := map[string]ObjectState{} // "attempt content" → state
		name := func(n, c int) string { return fmt.Sprintf("%d %d", n, c) }
		pick := func() (int, string, [KeySize]byte) {
			n := rapid.IntRange(0, attempts-1).Draw(t, "attempt")
			id, key := attempt(n)
			return n, id, key
		}
		demand := func(err, want error) {
			if !errors.Is(err, want) {
				t.Fatalf("error %v, want %v", err, want)
			}
		}
		barred := func(p Privacy) error {
			return map[Privacy]error{0: ErrNotFound, Redacted: ErrRedacted, Purged: ErrErased}[p]
		}
		lower := func(to Privacy) func(*rapid.T) {
			return func(*rapid.T) {
				n, id, _ := pick()
				changed, err := v.Lower(to, []string{id})
				demand(err, nil)
				want := state[n] < to && (state[n] != 0 || to == Purged)
				if changed != map[bool]int{true: 1}[want] {
					t.Fatalf("%s of %s attempt: %d affected", to, state[n], changed)
				}
				if want {
					state[n], body[n] = to, false
					for c := range contents {
						delete(refs, name(n, c))
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(*rapid.T) {
				n, id, key := pick()
				err := v.Put(id, key)
				if state[n] == Purged {
					demand(err, ErrErased)
					return
				}
				demand(err, nil)
				state[n] = max(state[n], Active)
			},
			"body": func(*rapid.T) {
				n, id, _ := pick()
				err := v.PutBody(id, "s", "n", contents[1], commit.Raw)
				demand(err, barred(state[n]))
				body[n] = body[n] || err == nil
			},
			"store": func(*rapid.T) {
				n, id, _ := pick()
				c := rapid.IntRange(0, 1).Draw(t, "content")
				_, err := v.PutObject(refBy(id, "x"), nil, bytes.NewReader(contents[c]), MaxBody)
				demand(err, barred(state[n]))
				if err == nil {
					refs[name(n, c)] = ObjectKept
				}
			},
			"end": func(*rapid.T) {
				n, id, _ := pick()
				c := rapid.IntRange(0, 1).Draw(t, "content")
				r := refBy(id, "x")
				r.Digest = sha256.Sum256(contents[c])
				err := v.ChangeRef(r, func(r *Ref) bool { r.State = ObjectExpired; return true })
				if _, there := refs[name(n, c)]; there {
					demand(err, nil)
					refs[name(n, c)] = ObjectExpired
				}
			},
			"redact": lower(Redacted),
			"purge":  lower(Purged),
			"restart": func(*rapid.T) {
				demand(v.Close(), nil)
				v = openIt()
			},
			"": func(*rapid.T) {
				kept := map[int]bool{}
				for n := range attempts {
					id, _ := attempt(n)
					p, err := v.Privacy(id)
					if p != state[n] || (state[n] == 0) != errors.Is(err, ErrNotFound) {
						t.Fatalf("attempt %d is %s (%v), want %s", n, p, err, state[n])
					}
					_, err = v.Body(id, "s", "n")
					switch want := barred(state[n]); {
					case want != nil:
						demand(err, want)
					case body[n]:
						demand(err, nil)
					default:
						demand(err, ErrNotFound)
					}
					for c := range contents {
						kept[c] = kept[c] || refs[name(n, c)] == ObjectKept
					}
				}
				for c, content := range contents {
					size, err := v.StatObject(sha256.Sum256(content))
					if kept[c] != (err == nil) || kept[c] && size != int64(len(content)) {
						t.Fatalf("object %d: %d bytes, %v; kept %t", c, size, err, kept[c])
					}
				}
			},
		})
	})
}
