package backup

import (
	"archive/tar"
	"bytes"
	"testing"
)

// A backup that somebody else wrote gives lawful names alone, and is whole or
// refused.
func FuzzDUR03_Read(f *testing.F) {
	pack := func(files ...string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := 0; i < len(files); i += 2 {
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Mode: 0o600, Size: int64(len(files[i+1]))}); err != nil {
				f.Fatal(err)
			}
			if _, err := w.Write([]byte(files[i+1])); err != nil {
				f.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(pack())
	f.Add(pack("ledger.json", "{}", manifestName, "{}"))
	f.Add(pack("../ledger.json", "{}"))
	f.Add(pack("log/tile/0/000", "x", manifestName, `{"files":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<20 {
			return
		}
		given := 0
		m, err := Read(bytes.NewReader(b), func(name string, data []byte) error {
			if most, ok := allowed(name); !ok || int64(len(data)) > most {
				t.Fatalf("%q with %d bytes is given", name, len(data))
			}
			given++
			return nil
		})
		if err == nil && (m == nil || len(m.Files) != given) {
			t.Fatalf("taken: %+v with %d files", m, given)
		}
	})
}
