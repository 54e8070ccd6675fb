package state

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func open(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := Open(path, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEVI06_TheRuntimeIDOutlivesRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	d := open(t, path)
	id := d.RuntimeID()
	if !strings.HasPrefix(id, "mcp-proxy:") || len(id) != 42 {
		t.Errorf("got %q", id)
	}
	if _, err := Open(path, rand.Reader); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), "hint: ") || !strings.Contains(err.Error(), path) {
		t.Errorf("a second proxy: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	defer again.Close()
	if again.RuntimeID() != id {
		t.Errorf("got %q, want %q", again.RuntimeID(), id)
	}
	if other := open(t, filepath.Join(t.TempDir(), "c")); other.RuntimeID() == id {
		t.Error("two directories have one id")
	}
}

func TestEVI06_SlotsAreTakenFromTheLowest(t *testing.T) {
	base := t.TempDir()
	var dirs []*Dir
	for i := range 3 {
		d, err := OpenSlot(base, rand.Reader)
		if err != nil || filepath.Base(d.Path()) != string(rune('0'+i)) {
			t.Fatalf("slot %d: %v", i, err)
		}
		dirs = append(dirs, d)
	}
	want := dirs[1].RuntimeID()
	if err := dirs[1].Close(); err != nil {
		t.Fatal(err)
	}
	d, err := OpenSlot(base, rand.Reader)
	if err != nil || d.RuntimeID() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestADamagedIdentityIsNotReplaced(t *testing.T) {
	for _, doc := range []string{"", "{}", `{"formatVersion":1,"runtimeId":"mcp-proxy:0"}`, `{"formatVersion":2,"runtimeId":"mcp-proxy:00112233445566778899aabbccddeeff"}`,
		`{"formatVersion":1,"runtimeId":"mcp-proxy:00112233445566778899aabbccddeeff","x":1}`} {
		path := t.TempDir()
		file := filepath.Join(path, "runtime.json")
		if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the lock is let go of
			if _, err := Open(path, rand.Reader); err == nil || errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s: %v", doc, err)
			}
		}
		if b, _ := os.ReadFile(file); !bytes.Equal(b, []byte(doc)) {
			t.Errorf("%s became %s", doc, b)
		}
	}
}

func TestDocuments(t *testing.T) {
	d := open(t, t.TempDir())
	defer d.Close()
	type doc struct {
		N int `json:"n"`
	}
	var got doc
	if found, err := d.Load("x", &got); found || err != nil {
		t.Errorf("got %v, %v", found, err)
	}
	if err := d.Save("x", doc{7}); err != nil {
		t.Fatal(err)
	}
	if found, err := d.Load("x", &got); !found || err != nil || got.N != 7 {
		t.Errorf("got %v, %v, %v", got, found, err)
	}
	for range 2 {
		if err := d.Remove("x"); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(d.file("x"), make([]byte, maxDocument+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Load("x", &got); err == nil || !strings.Contains(err.Error(), "over") {
		t.Errorf("got %v", err)
	}
}
