package kv

import (
	"strings"
	"testing"
)

// Rows of another version, older or newer, are dropped as a whole: a program of
// before and one of after can take turns on a directory.
func TestLOG05_RowsOfAnotherSchemaAreMadeAnew(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Schema = 2
	put := func(db *DB) {
		t.Helper()
		b := begin(t, db)
		if err := b.Set([]byte("k"), []byte("v")); err != nil {
			t.Fatal(err)
		}
		commit(t, b, 1)
	}
	db := open(t, cfg)
	put(db)
	for _, schema := range []uint32{2, 3, 2, 1} {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		same := cfg.Schema == schema
		cfg.Schema = schema
		db = open(t, cfg)
		c, err := db.Cursor()
		if err != nil {
			t.Fatal(err)
		}
		if same != (c.Size == 1) || same != (db.Fresh() == "") {
			t.Errorf("schema %d: cursor at %d, fresh %q", schema, c.Size, db.Fresh())
		}
		if !same {
			if strings.Contains(db.Fresh(), "damage") {
				t.Errorf("schema %d: the reason is %q", schema, db.Fresh())
			}
			put(db)
		}
	}
}
