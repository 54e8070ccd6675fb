package vault

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"counterfoil/ledger/commit"

	"pgregory.net/rapid"
)

func TestEVI12_BodiesOfEverySizeComeBack(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	id := mustPut(t, v, 1)
	sizes := []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 2 * chunkSize, 4*chunkSize + 7, 5 << 20, MaxBody}
	bodies := map[int][]byte{}
	for _, n := range sizes {
		bodies[n] = random(t, n)
		must(t, v.PutBody(id, "begin", fmt.Sprint(n), bodies[n], commit.Raw))
	}
	mustBe(t, v.PutBody(id, "begin", "x", make([]byte, MaxBody+1), commit.Raw), ErrTooLarge)
	check := func(v *Vault) {
		for _, n := range sizes {
			mustHaveBody(t, v, id, "begin", fmt.Sprint(n), bodies[n], commit.Raw)
		}
	}
	check(v)
	must(t, v.Close())
	v = open(t, dir)
	check(v)
	must(t, v.Verify())
}

func TestEVI12_OpeningsOpenTheirCommitments(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	value := []byte(`{"to":"Zoë"}`)
	must(t, v.PutBody(id, commit.SlotBegin, commit.NameInput, value, commit.JCS))
	_, key := attempt(1)
	digest := commit.Commitment(commit.NameInput, commit.DeriveSalt(key[:], id, commit.SlotBegin, commit.NameInput), value)
	o, err := v.Opening(id, commit.SlotBegin, commit.NameInput)
	must(t, err)
	must(t, commit.Verify(o, digest))
	if o.Encoding != commit.JCS {
		t.Errorf("encoding %q", o.Encoding)
	}
	_, err = v.Opening(id, commit.SlotBegin, commit.NameResult)
	mustBe(t, err, ErrNotFound)
}

func TestEVI12_BodiesAreListed(t *testing.T) {
	v := open(t, t.TempDir())
	id, other := mustPut(t, v, 1), mustPut(t, v, 2)
	none, err := v.Bodies(id)
	must(t, err)
	diff(t, "none", []BodyInfo{}, none)
	must(t, v.PutBody(id, "begin", "input", []byte("abc"), commit.JCS))
	must(t, v.PutBody(id, "append:1", "result", make([]byte, 200<<10), commit.Raw))
	must(t, v.PutBody(id, "begin", "expectedEffect", nil, commit.Raw))
	must(t, v.PutBody(other, "begin", "input", []byte("abcd"), commit.JCS))
	got, err := v.Bodies(id)
	must(t, err)
	diff(t, "bodies", []BodyInfo{
		{"append:1", "result", commit.Raw, 200 << 10},
		{"begin", "expectedEffect", commit.Raw, 0},
		{"begin", "input", commit.JCS, 3},
	}, got)
	_, err = v.Bodies("att_unknown")
	mustBe(t, err, ErrNotFound)
}

func TestEVI12_FirstBodyStays(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	for _, size := range []int{10, 200 << 10} {
		name := fmt.Sprint(size)
		body := random(t, size)
		must(t, v.PutBody(id, "s", name, body, commit.JCS))
		rows := countRows(t, v)
		must(t, v.PutBody(id, "s", name, body, commit.JCS))
		mustBe(t, v.PutBody(id, "s", name, body, commit.Raw), ErrConflict)
		mustBe(t, v.PutBody(id, "s", name, body[1:], commit.JCS), ErrConflict)
		mustBe(t, v.PutBody(id, "s", name, random(t, 100<<10), commit.JCS), ErrConflict)
		mustHaveBody(t, v, id, "s", name, body, commit.JCS)
		if got := countRows(t, v); got != rows {
			t.Errorf("refused bodies left rows: %d, before %d", got, rows)
		}
	}
}

func TestEVI12_RacingBodiesHaveOneWinner(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	bodies := make([][]byte, 8)
	errs := make([]error, len(bodies))
	var wg sync.WaitGroup
	for i := range bodies {
		bodies[i] = random(t, 300<<10)
		wg.Go(func() { errs[i] = v.PutBody(id, "s", "n", bodies[i], commit.Raw) })
	}
	wg.Wait()
	winner := -1
	for i, err := range errs {
		if err == nil && winner < 0 {
			winner = i
		} else if !errors.Is(err, ErrConflict) {
			t.Errorf("body %d: %v", i, err)
		}
	}
	mustHaveBody(t, v, id, "s", "n", bodies[winner], commit.Raw)
	if got, want := countRows(t, v), 3+5; got != want { // m, k, b and 5 chunks
		t.Errorf("%d rows, want %d: the losers' chunks are left", got, want)
	}
}

func TestPutBodyRefuses(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	for name, tc := range map[string]struct {
		id, slot, name string
		enc            commit.Encoding
		want           error
	}{
		"unknown attempt":  {"att_none", "s", "n", commit.Raw, ErrNotFound},
		"no attempt":       {"", "s", "n", commit.Raw, ErrInvalid},
		"no slot":          {id, "", "n", commit.Raw, ErrInvalid},
		"no name":          {id, "s", "", commit.Raw, ErrInvalid},
		"unknown encoding": {id, "s", "n", "json", ErrInvalid},
		"long slot":        {id, strings.Repeat("s", 1025), "n", commit.Raw, ErrTooLarge},
		"long name":        {id, "s", strings.Repeat("n", 129), commit.Raw, ErrTooLarge},
	} {
		if err := v.PutBody(tc.id, tc.slot, tc.name, nil, tc.enc); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", name, err, tc.want)
		}
	}
	must(t, v.PutBody(id, strings.Repeat("s", 1024), strings.Repeat("n", 128), nil, commit.Raw))
}

// TestPRV08_RowsAreBoundToTheirPlace moves rows about as someone with the files
// but not the key could: none opens in another place.
func TestPRV08_RowsAreBoundToTheirPlace(t *testing.T) {
	v := open(t, t.TempDir())
	a, b := mustPut(t, v, 1), mustPut(t, v, 2)
	large := random(t, 150<<10)
	for _, id := range []string{a, b} {
		must(t, v.PutBody(id, "s", "n", []byte(id), commit.Raw))
		must(t, v.PutBody(id, "s", "m", []byte("other"), commit.Raw))
		must(t, v.PutBody(id, "s", "large", large, commit.Raw))
	}
	an, bn := v.seal.attempt(a), v.seal.attempt(b)
	move := func(from, to []byte) {
		t.Helper()
		var val []byte
		must(t, v.db.View(func(txn *badgerTxn) (err error) {
			val, err = get(txn, from)
			return err
		}))
		must(t, v.do(&op{rows: []kv{{to, val}}}))
	}
	fails := func(id, name string) {
		t.Helper()
		_, err := v.Body(id, "s", name)
		mustBe(t, err, ErrCorrupt)
	}
	move(v.seal.body(an, "s", "n"), v.seal.body(an, "s", "m"))
	fails(a, "m")
	move(v.seal.body(bn, "s", "n"), v.seal.body(an, "s", "n"))
	fails(a, "n")

	chunks, err := v.names(row(rowChunk, an), 10)
	must(t, err)
	move(chunks[1], chunks[0])
	fails(a, "large")

	move(row(rowKey, bn), row(rowKey, an))
	v.forget(a)
	_, err = v.Key(a)
	mustBe(t, err, ErrCorrupt)
	mustBe(t, v.Put(a, [KeySize]byte{}), ErrCorrupt)
	mustHaveBody(t, v, b, "s", "large", large, commit.Raw)
}

func TestEVI12_DamageIsAnErrorNotAnotherBody(t *testing.T) {
	v := open(t, t.TempDir())
	id := mustPut(t, v, 1)
	must(t, v.PutBody(id, "s", "n", random(t, 200<<10), commit.Raw))
	chunks, err := v.names(row(rowChunk, v.seal.attempt(id)), 10)
	must(t, err)
	must(t, v.deleteRows(chunks[2:3]))
	_, err = v.Body(id, "s", "n")
	mustBe(t, err, ErrCorrupt)
}

func TestHeadHasOneSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := head{
			encoding: rapid.SampledFrom([]commit.Encoding{commit.JCS, commit.Raw}).Draw(t, "encoding"),
			slot:     rapid.StringN(0, -1, maxSlot).Draw(t, "slot"),
			name:     rapid.StringN(0, -1, maxName).Draw(t, "name"),
			size:     rapid.IntRange(0, 100).Draw(t, "size"),
			chunked:  rapid.Bool().Draw(t, "chunked"),
		}
		copy(h.digest[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "digest"))
		if h.chunked {
			h.size += maxInline + 1
			copy(h.chunks[:], rapid.SliceOfN(rapid.Byte(), bodyIDSize, bodyIDSize).Draw(t, "id"))
		} else {
			h.inline = bytes.Repeat([]byte{7}, h.size)
		}
		in := h.encode()
		back, err := decodeHead(in)
		if err != nil || !bytes.Equal(back.encode(), in) || back.slot != h.slot || back.name != h.name ||
			back.size != h.size || back.encoding != h.encoding || back.digest != h.digest || back.chunks != h.chunks {
			t.Fatalf("round trip: %+v, %v", back, err)
		}
		cut := rapid.IntRange(0, len(in)-1).Draw(t, "cut")
		if _, err := decodeHead(in[:cut]); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if _, err := decodeHead(append(bytes.Clone(in), 0)); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("trailing byte: %v", err)
		}
		in[rapid.IntRange(0, len(in)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		if again, err := decodeHead(in); err == nil && !bytes.Equal(again.encode(), in) {
			t.Fatal("a second spelling was accepted")
		}
	})
}

func countRows(t *testing.T, v *Vault) int {
	t.Helper()
	names, err := v.names(nil, 1<<20)
	must(t, err)
	return len(names)
}
