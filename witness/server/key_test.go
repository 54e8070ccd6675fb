package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	cosign "github.com/transparency-dev/formats/note"

	"counterfoil/internal/testkit/logkit"
)

func TestLOG10_KeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	made, err := GenerateKey(path, "witness.example/w1", logkit.Seed("seed"))
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	if _, err := GenerateKey(path, "witness.example/w1", logkit.Seed("other")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("replaces a key: %v", err)
	}
	k, err := LoadKey(path)
	if err != nil || k.Verifier().String() != made.Verifier().String() {
		t.Fatalf("%v, %v", k, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	// Other programs of the protocol read it, and get the same key.
	other, err := cosign.NewSignerForCosignatureV1(strings.TrimSuffix(text, "\n"))
	if err != nil || other.Name() != k.Verifier().Name || other.KeyHash() != k.Verifier().ID {
		t.Errorf("%v, %v", other, err)
	}
	secret := text[strings.LastIndex(text, "+")+1 : len(text)-1]
	for _, shown := range []string{fmt.Sprint(k), fmt.Sprintf("%+v %#v %x", k, k, k), fmt.Sprintf("%+v", struct{ K *Key }{k})} {
		if strings.Contains(shown, secret) {
			t.Errorf("prints the key: %s", shown)
		}
	}
	for name, bad := range map[string]string{
		"empty":           "",
		"no newline":      strings.TrimSuffix(text, "\n"),
		"two lines":       text + text,
		"a log's key":     strings.Replace(text, "+"+secret, "+AQ"+secret[2:], 1),
		"wrong id":        strings.Replace(text, fmt.Sprintf("%08x", k.Verifier().ID), "00000000", 1),
		"cut":             text[:len(text)-6] + "\n",
		"no padding":      strings.TrimRight(text, "=\n") + "\n",
		"name with blank": strings.Replace(text, "witness.example", "witness example", 1),
		"too large":       text + strings.Repeat(" ", 2000),
	} {
		if bad == text {
			continue // nothing to pad
		}
		p := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(p, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadKey(p); !errors.Is(err, ErrKeyFile) || strings.Contains(err.Error(), secret[4:]) {
			t.Errorf("%s: %v", name, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(link); !errors.Is(err, ErrKeyFile) {
		t.Errorf("symbolic link: %v", err)
	}
	if _, err := LoadKey(t.TempDir()); !errors.Is(err, ErrKeyFile) {
		t.Errorf("directory: %v", err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadKey(path); !errors.Is(err, ErrKeyFile) || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("readable by the group: %v", err)
	}
	if _, err := GenerateKey(filepath.Join(t.TempDir(), "k"), "with blank", logkit.Seed("x")); err == nil {
		t.Error("takes any name")
	}
}
