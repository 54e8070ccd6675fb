package badgerdir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"
)

// TestLOG03_TablesThatBadgerCannotBear: tables as Badger writes them pass, cut, zeroed
// and overwritten ones are named.
func TestLOG03_TablesThatBadgerCannotBear(t *testing.T) {
	dir := t.TempDir()
	db, err := badger.Open(badger.DefaultOptions(dir).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *badger.Txn) error {
		for i := range 1000 {
			if err := tx.Set(fmt.Appendf(nil, "row %d", i), bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal("no table: ", err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckTables(dir); err != nil {
		t.Errorf("a whole table: %v", err)
	}
	// A kill while a table is made leaves zeros that no manifest lists.
	orphan := filepath.Join(dir, "009999.sst")
	if err := os.WriteFile(orphan, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := CheckTables(dir); err != nil {
		t.Errorf("what a kill left: %v", err)
	}
	half := bytes.Clone(whole)
	clear(half[len(half)/2:])
	for name, b := range map[string][]byte{
		"empty": nil, "seven bytes": whole[:7], "cut": whole[:len(whole)/2], "zeros": make([]byte, len(whole)), "zeros at the end": half,
		"text": bytes.Repeat([]byte("a row of text "), 500), "ones": bytes.Repeat([]byte{0xff}, 4096),
	} {
		if err := os.WriteFile(tables[0], b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := CheckTables(dir); !errors.Is(err, ErrDamaged) || !bytes.Contains([]byte(err.Error()), []byte(tables[0])) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := CheckTables(filepath.Join(dir, "none")); err != nil {
		t.Errorf("no directory: %v", err)
	}
}
