package keyring_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"counterfoil/ledger/keyring"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/sumdb/note"
)

const origin = "counterfoil.test/log"

// generate makes a directory of keys and returns its path.
func generate(t *testing.T) (string, *keyring.Generated) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "keys")
	g, err := keyring.Generate(dir, origin, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return dir, g
}

func config(dir string) keyring.Config { return keyring.Config{Dir: dir, Origin: origin} }

func TestGenerateThenOpen(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	dir, g := generate(t)
	mustMode(t, dir, fs.ModeDir|0o700)
	for _, f := range []string{"log.key", "event.key", "tenant.key", "registry.json"} {
		mustMode(t, filepath.Join(dir, f), 0o600)
	}
	mustNames(t, filepath.Dir(dir), "keys")

	k, err := keyring.Open(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	if k.Event().KeyID() != g.EventKeyID || !k.Event().Public().Equal(g.EventPublicKey) {
		t.Error("another event key was opened than was generated")
	}
	sum := sha256.Sum256(g.EventPublicKey)
	if want := "ed25519:" + hex.EncodeToString(sum[:]); g.EventKeyID != want {
		t.Errorf("key id = %s, want %s", g.EventKeyID, want)
	}
	msg := []byte("DSSEv1 1 a 1 b")
	sig, err := k.Event().Sign(msg)
	if err != nil || !ed25519.Verify(g.EventPublicKey, msg, sig) {
		t.Errorf("event signature does not verify (%v)", err)
	}

	if k.LogVerifierKey() != g.LogVerifierKey || k.Log().Name() != origin {
		t.Errorf("log key: %s, want %s", k.LogVerifierKey(), g.LogVerifierKey)
	}
	v, err := note.NewVerifier(g.LogVerifierKey)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: origin + "\n0\n\n"}, k.Log())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := note.Open(signed, note.VerifierList(v)); err != nil {
		t.Errorf("signed note: %v", err)
	}

	seal, tenant := k.VaultSealKey().Array(), k.TenantKey().Array()
	if seal == tenant || seal == [32]byte{} || tenant == [32]byte{} {
		t.Error("tenant key and seal key must be two keys")
	}
	again, err := keyring.Open(config(dir))
	if err != nil || again.VaultSealKey().Array() != seal {
		t.Errorf("the seal key changed (%v)", err)
	}
}

func TestGenerateNeverReplaces(t *testing.T) {
	dir, _ := generate(t)
	before := snapshot(t, dir)
	if _, err := keyring.Generate(dir, origin, rand.Reader); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("error %v, want fs.ErrExist", err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error("keys changed")
	}
}

func TestGenerateMakesAllOrNothing(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "keys")
	boom := errors.New("no randomness")
	for n := range 96 {
		r := &shortReader{n: n, err: boom}
		if _, err := keyring.Generate(dir, origin, r); !errors.Is(err, boom) {
			t.Fatalf("%d bytes of randomness: %v", n, err)
		}
		mustNames(t, base)
	}
	for _, bad := range []string{"", "with space", "with+plus"} {
		if _, err := keyring.Generate(dir, bad, rand.Reader); err == nil {
			t.Errorf("origin %q accepted", bad)
		}
		mustNames(t, base)
	}
	if _, err := keyring.Generate(dir, origin, &shortReader{n: 96, err: boom}); err != nil {
		t.Errorf("96 bytes must do: %v", err)
	}
}

func TestATT14_IdAndSeedPathGoTogether(t *testing.T) {
	dir, g := generate(t)
	seed := filepath.Join(t.TempDir(), "own.key")
	pub, err := keyring.GenerateSeed(seed, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	own := keyring.KeyID(pub)
	register(t, dir, pub)

	for _, tc := range []struct {
		name     string
		id, path string
		want     error
	}{
		{"neither", "", "", nil},
		{"both", own, seed, nil},
		{"id alone", own, "", keyring.ErrConfig},
		{"id of the default key alone", g.EventKeyID, "", keyring.ErrConfig},
		{"path alone", "", seed, keyring.ErrConfig},
		{"id of another key", g.EventKeyID, seed, keyring.ErrMismatch},
		{"upper-case id", strings.ToUpper(own), seed, keyring.ErrMismatch},
	} {
		cfg := config(dir)
		cfg.EventKeyID, cfg.EventSeedFile = tc.id, tc.path
		k, err := keyring.Open(cfg)
		if !errors.Is(err, tc.want) || (k == nil) != (tc.want != nil) {
			t.Errorf("%s: error %v, want %v", tc.name, err, tc.want)
		}
		if tc.name == "both" && k.Event().KeyID() != own {
			t.Errorf("%s: signs with %s", tc.name, k.Event().KeyID())
		}
	}
	if _, err := keyring.Open(keyring.Config{}); !errors.Is(err, keyring.ErrConfig) {
		t.Errorf("empty configuration: %v", err)
	}
}

func TestATT15_KeyFilesFailClosed(t *testing.T) {
	for _, file := range []string{"event.key", "log.key", "tenant.key", "registry.json"} {
		secret := file != "registry.json"
		for _, tc := range []struct {
			name string
			do   func(path string) error
			want error
		}{
			{"missing", os.Remove, fs.ErrNotExist},
			{"symbolic link", func(p string) error {
				return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p))
			}, keyring.ErrInsecure},
			{"dangling link", func(p string) error {
				return errors.Join(os.Remove(p), os.Symlink(p+".none", p))
			}, keyring.ErrInsecure},
			{"directory", func(p string) error {
				return errors.Join(os.Remove(p), os.Mkdir(p, 0o700))
			}, keyring.ErrInsecure},
			{"named pipe", func(p string) error {
				return errors.Join(os.Remove(p), syscall.Mkfifo(p, 0o600))
			}, keyring.ErrInsecure},
			{"group can write", chmod(0o620), keyring.ErrInsecure},
			{"others can write", chmod(0o602), keyring.ErrInsecure},
			{"group can read", chmod(0o640), when(secret, keyring.ErrInsecure)},
			{"others can read", chmod(0o604), when(secret, keyring.ErrInsecure)},
			{"others can execute", chmod(0o601), when(secret, keyring.ErrInsecure)},
			{"owner can only read", chmod(0o400), nil},
			{"empty", replace(func([]byte) []byte { return nil }), keyring.ErrMalformed},
			{"no newline", replace(func(b []byte) []byte { return b[:len(b)-1] }), keyring.ErrMalformed},
			{"two newlines", replace(func(b []byte) []byte { return append(b, '\n') }), keyring.ErrMalformed},
			{"carriage return", replace(func(b []byte) []byte { return append(b[:len(b)-1], "\r\n"...) }), keyring.ErrMalformed},
			{"space before", replace(func(b []byte) []byte { return append([]byte(" "), b...) }), keyring.ErrMalformed},
			{"huge", replace(func(b []byte) []byte { return bytes.Repeat([]byte("A"), 8<<20) }), keyring.ErrMalformed},
		} {
			t.Run(file+"/"+tc.name, func(t *testing.T) {
				dir, _ := generate(t)
				if err := tc.do(filepath.Join(dir, file)); err != nil {
					t.Fatal(err)
				}
				k, err := keyring.Open(config(dir))
				if !errors.Is(err, tc.want) || (k == nil) != (tc.want != nil) {
					t.Errorf("error %v, want %v", err, tc.want)
				}
			})
		}
	}
	t.Run("directory others can write", func(t *testing.T) {
		dir, _ := generate(t)
		if err := os.Chmod(dir, 0o770); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrInsecure) {
			t.Errorf("error %v, want ErrInsecure", err)
		}
	})
}

func TestATT15_WrongSeeds(t *testing.T) {
	std := base64.StdEncoding
	seed := bytes.Repeat([]byte{0xFB, 0xEF}, 16) // "++/v…": the alphabets differ
	good := std.EncodeToString(seed)
	// A padded group that ends in bits which no byte uses.
	loose := good[:42] + string(good[42]+1) + "="
	for name, text := range map[string]string{
		"31 bytes":         std.EncodeToString(seed[:31]) + "\n",
		"33 bytes":         std.EncodeToString(append(seed, 1)) + "\n",
		"64 bytes":         std.EncodeToString(append(seed, seed...)) + "\n",
		"raw":              string(seed),
		"hex":              hex.EncodeToString(seed) + "\n",
		"url alphabet":     base64.URLEncoding.EncodeToString(seed) + "\n",
		"no padding":       base64.RawStdEncoding.EncodeToString(seed) + "\n",
		"loose last digit": loose + "\n",
		"newline inside":   good[:20] + "\n" + good[20:],
		"two lines":        good + "\n" + good + "\n",
	} {
		for _, file := range []string{"event.key", "tenant.key"} {
			dir, _ := generate(t)
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := keyring.Open(config(dir))
			if !errors.Is(err, keyring.ErrMalformed) {
				t.Errorf("%s: %s: error %v, want ErrMalformed", file, name, err)
			}
			if err != nil && strings.Contains(err.Error(), strings.TrimSpace(text)) {
				t.Errorf("%s: %s: the error quotes the file", file, name)
			}
		}
	}
}

func TestATT15_WrongLogKeys(t *testing.T) {
	dir, _ := generate(t)
	good, err := os.ReadFile(filepath.Join(dir, "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := note.GenerateKey(rand.Reader, "other.test/log")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.SplitN(strings.TrimSpace(string(good)), "+", 5)
	join := func(i int, s string) string {
		p := append([]string(nil), parts...)
		p[i] = s
		return strings.Join(p, "+") + "\n"
	}
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"another log's key": {other + "\n", keyring.ErrMismatch},
		"name changed":      {join(2, "counterfoil.test/lof"), keyring.ErrMalformed},
		"hash changed":      {join(3, "00000000"), keyring.ErrMalformed},
		"upper-case hash":   {join(3, strings.ToUpper(parts[3])), keyring.ErrMalformed},
		"newline in base64": {join(4, parts[4][:9]+"\n"+parts[4][9:]), keyring.ErrMalformed},
		"verifier key":      {"x+00000000+AA==\n", keyring.ErrMalformed},
		"no fields":         {"PRIVATE\n", keyring.ErrMalformed},
	} {
		if tc.text == string(good) {
			continue // the hash happens to have no letters
		}
		if err := os.WriteFile(filepath.Join(dir, "log.key"), []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := keyring.Open(config(dir)); !errors.Is(err, tc.want) {
			t.Errorf("%s: error %v, want %v", name, err, tc.want)
		} else if strings.Contains(err.Error(), parts[4]) {
			t.Errorf("%s: the error quotes the key", name)
		}
	}
}

func TestATT16_OnlyActiveRegisteredKeysOpen(t *testing.T) {
	dir, g := generate(t)
	path := filepath.Join(dir, "registry.json")
	r, err := keyring.LoadRegistry(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, status := range []keyring.Status{keyring.Retired, keyring.Revoked, keyring.Disabled} {
		c := r.Clone()
		if _, err := c.SetStatus(g.EventKeyID, status, 7); err != nil {
			t.Fatal(err)
		}
		mustDo(t, c.Save(path))
		if k, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrNotActive) || k != nil {
			t.Errorf("%s: error %v, want ErrNotActive", status, err)
		}
	}

	other, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &keyring.Registry{}
	if _, _, err := c.Register(keyring.KeyID(other), other, 0); err != nil {
		t.Fatal(err)
	}
	mustDo(t, c.Save(path))
	if _, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrNotRegistered) {
		t.Errorf("other key registered: %v, want ErrNotRegistered", err)
	}
	mustDo(t, os.Remove(path))
	if _, err := keyring.Open(config(dir)); !errors.Is(err, keyring.ErrNotRegistered) {
		t.Errorf("no registry: %v, want ErrNotRegistered", err)
	}
}

func TestATT17_LoadingNeverRegisters(t *testing.T) {
	dir, _ := generate(t)
	seed := filepath.Join(dir, "second.key")
	pub, err := keyring.GenerateSeed(seed, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	before := snapshot(t, dir)
	cfg := config(dir)
	cfg.EventKeyID, cfg.EventSeedFile = keyring.KeyID(pub), seed
	for range 2 {
		if _, err := keyring.Open(cfg); !errors.Is(err, keyring.ErrNotRegistered) {
			t.Fatalf("error %v, want ErrNotRegistered", err)
		}
	}
	if _, err := keyring.Open(config(dir)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, snapshot(t, dir)); diff != "" {
		t.Error("opening changed a file")
	}
}

func TestPRV08_SecretsAreNeverPrinted(t *testing.T) {
	dir, _ := generate(t)
	k, err := keyring.Open(config(dir))
	if err != nil {
		t.Fatal(err)
	}
	type nested struct {
		k      *keyring.Keyring
		secret keyring.Secret
		Signer keyring.Signer
		Public keyring.Secret
	}
	things := []any{
		k, *k, k.Event(), keyring.Verified(k.Event()), k.Log(), k.TenantKey(), k.VaultSealKey(), keyring.Secret{},
		nested{k, k.TenantKey(), k.Event(), k.TenantKey()}, &nested{k, k.TenantKey(), k.Event(), k.TenantKey()},
		[]keyring.Secret{k.TenantKey()}, map[string]any{"a": k.TenantKey()},
	}
	var out bytes.Buffer
	text, js := slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))
	for _, x := range things {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%o", "%b"} {
			fmt.Fprintf(&out, verb+"\n", x)
		}
		text.Info("m", "x", x)
		js.Info("m", "x", x)
		if j, err := json.Marshal(x); err == nil {
			out.Write(j)
		}
		if s, ok := x.(fmt.Stringer); ok {
			fmt.Fprintln(&out, s.String())
		}
		if s, ok := x.(fmt.GoStringer); ok {
			fmt.Fprintln(&out, s.GoString())
		}
	}
	var secrets [][]byte
	for _, file := range []string{"event.key", "tenant.key"} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(raw)))
		if err != nil {
			t.Fatal(err)
		}
		secrets = append(secrets, b)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	logSeed, err := base64.StdEncoding.DecodeString(strings.SplitN(strings.TrimSpace(string(raw)), "+", 5)[4])
	if err != nil {
		t.Fatal(err)
	}
	seal := k.VaultSealKey().Array()
	secrets = append(secrets, logSeed[1:], seal[:])
	got := out.String()
	for i, s := range secrets {
		decimal := strings.Trim(fmt.Sprint(s[:8]), "[]")
		goSyntax := strings.Trim(strings.TrimPrefix(fmt.Sprintf("%#v", s[:8]), "[]byte"), "{}")
		for _, form := range []string{
			string(s[:8]), hex.EncodeToString(s[:8]), strings.ToUpper(hex.EncodeToString(s[:8])),
			base64.StdEncoding.EncodeToString(s)[:12], decimal, goSyntax,
		} {
			if strings.Contains(got, form) {
				t.Errorf("secret %d is printed as %q", i, form)
			}
		}
	}
	if !strings.Contains(got, "[redacted]") {
		t.Error("nothing was redacted: the test does not test")
	}
}

func TestDUR05_SeedFilesAreKnownForBackup(t *testing.T) {
	dir, _ := generate(t)
	if _, err := keyring.GenerateEvent(dir, rand.Reader); err != nil {
		t.Fatal(err)
	}
	var seeds []string
	for name := range snapshot(t, dir) {
		if keyring.IsSeedFile(filepath.Base(name)) {
			seeds = append(seeds, name)
		}
	}
	if len(seeds) != 3 { // log.key, event.key, event-….key
		t.Errorf("seed files %q", seeds)
	}
	for _, name := range []string{keyring.TenantKeyFile, keyring.RegistryFile, keyring.SignerFile} {
		if keyring.IsSeedFile(filepath.Base(name)) {
			t.Errorf("%s is no seed", name)
		}
	}
}

func register(t *testing.T, dir string, pub ed25519.PublicKey) {
	t.Helper()
	path := filepath.Join(dir, "registry.json")
	r, err := keyring.LoadRegistry(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Register(keyring.KeyID(pub), pub, 0); err != nil {
		t.Fatal(err)
	}
	mustDo(t, r.Save(path))
}

func chmod(mode fs.FileMode) func(string) error {
	return func(p string) error { return os.Chmod(p, mode) }
}

func replace(f func([]byte) []byte) func(string) error {
	return func(p string) error {
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		return os.WriteFile(p, f(b), 0o600)
	}
}

func when(cond bool, err error) error {
	if cond {
		return err
	}
	return nil
}

// shortReader gives n bytes, then the error.
type shortReader struct {
	n   int
	err error
}

func (r *shortReader) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, r.err
	}
	n := min(r.n, len(p))
	r.n -= n
	return rand.Read(p[:n])
}

func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	mustDo(t, filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		out[p] = string(b)
		return err
	}))
	return out
}

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode() != want {
		t.Errorf("mode of %s = %v, want %v", path, fi.Mode(), want)
	}
}

func mustNames(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(append([]string{}, want...), got); diff != "" {
		t.Fatalf("entries (-want +got):\n%s", diff)
	}
}
