package index

import (
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"
)

// An index of another version, older or newer, is made anew from the stream.
func TestLOG03_AnIndexOfAnotherVersionIsMadeAnew(t *testing.T) {
	msgs := history(5)
	for name, version := range map[string]byte{"older": formatVersion - 1, "newer": formatVersion + 1} {
		dir := t.TempDir()
		x := open(t, dir)
		run(t, x, msgs)
		want := dump(t, x, 5)
		err := x.db.Update(func(txn *badger.Txn) error {
			it, err := txn.Get(keyMeta)
			if err != nil {
				return err
			}
			meta, err := it.ValueCopy(nil)
			if err != nil {
				return err
			}
			meta[0] = version
			return txn.Set(keyMeta, meta)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Close(); err != nil {
			t.Fatal(err)
		}
		x = open(t, dir)
		if seq, _ := x.Position(); seq != 0 {
			t.Errorf("%s: the index goes on from %d", name, seq)
		}
		run(t, x, msgs)
		if diff := cmp.Diff(want, dump(t, x, 5)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
