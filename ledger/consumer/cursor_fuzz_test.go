package consumer

import (
	"bytes"
	"errors"
	"testing"

	"counterfoil/internal/testkit/seeds"
)

// A cursor lies on somebody's disk: it has one spelling.
func FuzzLOG12_Cursor(f *testing.F) {
	seeds.Add(f, "log.json", "tlog/checkpoint.json")
	f.Add([]byte(`{"checkpoint":"","next":0,"origin":"o.example/l","range":[],"schemaVersion":"` + CursorSchema + `"}`))
	f.Add([]byte(`{"checkpoint":"x","next":1,"origin":"o.example/l","range":["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="],"schemaVersion":"` + CursorSchema + `"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := ParseCursor(b)
		if err != nil {
			var ce *CursorError
			if !errors.As(err, &ce) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		if again := c.Append(nil); !bytes.Equal(again, bytes.TrimSuffix(b, []byte("\n"))) {
			t.Fatalf("%q comes back as %q", b, again)
		}
	})
}
