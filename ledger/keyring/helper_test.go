package keyring_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"counterfoil/internal/program"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

// buildHelper builds the example helper once.
var buildHelper = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "counterfoil-signer-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "counterfoil-signer-file")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "counterfoil/cmd/counterfoil-signer-file").CombinedOutput()
	if err != nil {
		return "", errors.Join(err, errors.New(string(out)))
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := buildHelper(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// helper is the configuration of the example helper with a new key.
func helper(t *testing.T) (keyring.HelperConfig, ed25519.PublicKey) {
	t.Helper()
	path, err := buildHelper()
	if err != nil {
		t.Fatal(err)
	}
	seed := filepath.Join(t.TempDir(), "seed")
	pub, err := keyring.GenerateSeed(seed, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keyring.HelperConfig{Path: path, Env: []string{"COUNTERFOIL_SIGNER_SEED=" + seed}, Limit: 10 * time.Second, InFlight: 64, Logger: slog.New(slog.DiscardHandler)}, pub
}

// script is a helper in a few lines of shell.
func script(t *testing.T, text string) keyring.HelperConfig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helper.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return keyring.HelperConfig{Path: path, Env: []string{"PATH=/usr/bin:/bin"}, Limit: 5 * time.Second, InFlight: 8, Logger: slog.New(slog.DiscardHandler)}
}

func start(t *testing.T, cfg keyring.HelperConfig) *keyring.Helper {
	t.Helper()
	h, err := keyring.StartHelper(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustDo(t, h.Close()) })
	return h
}

func TestATT32_ATT35_AHelperSignsDigests(t *testing.T) {
	cfg, pub := helper(t)
	seen := filepath.Join(t.TempDir(), "seen")
	tee := script(t, "tee "+seen+" | "+cfg.Path+"\n") // everything that the helper is given
	tee.Env = append(tee.Env, cfg.Env...)
	h := start(t, tee)
	if h.KeyID() != event.PrehashKeyID(pub) || !h.Public().Equal(pub) {
		t.Fatalf("key %s", h.KeyID())
	}
	s := keyring.Verified(h)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			pae := event.PAE(event.PayloadType, []byte(`{"attemptId":"att_secret`+string(rune('a'+i%26))+`"}`))
			sig, err := s.Sign(pae)
			if err != nil || !event.VerifySignature(h.KeyID(), pub, pae, sig) {
				t.Errorf("signature %d: %v", i, err)
			}
			if event.VerifySignature(keyring.KeyID(pub), pub, pae, sig) {
				t.Error("an Ed25519ph signature verifies as Ed25519")
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(seen)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Count(got, []byte("\n")) != 65 || bytes.Contains(got, []byte("attempt")) || bytes.Contains(got, []byte("DSSE")) {
		t.Errorf("the helper was given:\n%.400s", got)
	}
}

func TestATT34_TheProgramMustBeSafelyKept(t *testing.T) {
	cfg := script(t, "exit 0")
	mustDo(t, os.Chmod(cfg.Path, 0o770))
	if h, err := keyring.StartHelper(t.Context(), cfg); !errors.Is(err, program.ErrUnsafe) || h != nil {
		t.Errorf("%v", err)
	}
	cfg.Path = "helper.sh"
	if h, err := keyring.StartHelper(t.Context(), cfg); !errors.Is(err, program.ErrPath) || h != nil {
		t.Errorf("%v", err)
	}
}

const keyLine = `{"schema":"counterfoil.signer.v1","profile":"ed25519ph-sha512","publicKey":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}`

func TestATT33_HelpersThatDoNotStart(t *testing.T) {
	for name, text := range map[string]string{
		"ends":             "exit 3",
		"other schema":     "echo '{\"schema\":\"x\"}'; exec sleep 9",
		"short key":        "echo '" + strings.Replace(keyLine, "AAEC", "", 1) + "'; exec sleep 9",
		"unknown member":   "echo '" + strings.Replace(keyLine, "{", `{"more":1,`, 1) + "'; exec sleep 9",
		"twice":            "echo '" + strings.Replace(keyLine, "{", `{"profile":"ed25519ph-sha512",`, 1) + "'; exec sleep 9",
		"other profile":    "echo '" + strings.Replace(keyLine, "ph-sha512", "", 1) + "'; exec sleep 9",
		"no JSON":          "echo hello; exec sleep 9",
		"a line too long":  "head -c 100000 /dev/zero; exec sleep 9",
		"nothing but talk": "echo no key >&2; exit 1",
	} {
		if h, err := keyring.StartHelper(t.Context(), script(t, text)); !errors.Is(err, keyring.ErrSigner) || h != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := script(t, "exec sleep 60")
	cfg.Limit = 50 * time.Millisecond
	if _, err := keyring.StartHelper(t.Context(), cfg); !errors.Is(err, keyring.ErrSigner) || !strings.Contains(err.Error(), "within 50ms") {
		t.Errorf("silent: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := keyring.StartHelper(ctx, script(t, "exec sleep 60")); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
}

func TestATT33_WrongSlowAndDeadHelpers(t *testing.T) {
	pae := event.PAE(event.PayloadType, []byte("{}"))
	zeros := `"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=="`
	for _, test := range []struct {
		name, text string
		want       error
	}{
		{"wrong signature", "read a; echo '{\"id\":1,\"signature\":" + zeros + "}'; exec sleep 9", keyring.ErrBadSignature},
		{"short signature", "read a; echo '{\"id\":1,\"signature\":\"AAAA\"}'; exec sleep 9", keyring.ErrBadSignature},
		{"not base64", "read a; echo '{\"id\":1,\"signature\":\"*\"}'; exec sleep 9", keyring.ErrSigner},
		{"refuses", "read a; echo '{\"id\":1,\"error\":\"no\"}'; exec sleep 9", keyring.ErrSigner},
		{"says nothing of use", "read a; echo '{\"id\":1}'; exec sleep 9", keyring.ErrSigner},
		{"dies", "read a; exit 1", keyring.ErrSigner},
		{"garbage", "read a; echo garbage; exec sleep 9", keyring.ErrSigner},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := start(t, script(t, "read hello; echo '"+keyLine+"'\n"+test.text))
			if sig, err := keyring.Verified(h).Sign(pae); !errors.Is(err, test.want) || sig != nil {
				t.Errorf("error %v, want %v", err, test.want)
			}
		})
	}
	t.Run("slow", func(t *testing.T) {
		cfg := script(t, "read hello; echo '"+keyLine+"'\nexec sleep 60")
		cfg.Limit = 300 * time.Millisecond
		h := start(t, cfg)
		if _, err := h.Sign(pae); !errors.Is(err, keyring.ErrSigner) || !strings.Contains(err.Error(), "within 300ms") {
			t.Errorf("error %v", err)
		}
	})
	t.Run("comes back with another key", func(t *testing.T) {
		once := filepath.Join(t.TempDir(), "once")
		other := strings.Replace(keyLine, "AAEC", "BBEC", 1)
		h := start(t, script(t, "read hello; if mkdir "+once+"; then echo '"+keyLine+"'; read a; exit 1; fi\necho '"+other+"'; exec sleep 9"))
		for _, want := range []error{keyring.ErrSigner, keyring.ErrMismatch} {
			if _, err := h.Sign(pae); !errors.Is(err, want) {
				t.Errorf("error %v, want %v", err, want)
			}
		}
	})
}

// A helper that dies is started anew, and signs again.
func TestATT33_ADeadHelperIsStartedAnew(t *testing.T) {
	cfg, pub := helper(t)
	die := filepath.Join(t.TempDir(), "die")
	// The first run ends after one signature.
	one := script(t, "if mkdir "+die+"; then { read a; echo \"$a\"; read b; echo \"$b\"; } | "+cfg.Path+"; exit 0; fi\nexec "+cfg.Path+"\n")
	one.Env = append(one.Env, cfg.Env...)
	h := start(t, one)
	pae := event.PAE(event.PayloadType, []byte("{}"))
	failed := 0
	for signed := 0; signed < 3; {
		sig, err := h.Sign(pae)
		switch {
		case err == nil && event.VerifySignature(h.KeyID(), pub, pae, sig):
			signed++
		case errors.Is(err, keyring.ErrSigner) && failed < 3: // what was sent to the one that ended
			failed++
		default:
			t.Fatal(err)
		}
	}
	mustDo(t, h.Close())
	if _, err := h.Sign(pae); !errors.Is(err, keyring.ErrSigner) {
		t.Errorf("after Close: %v", err)
	}
}

func TestATT14_AnExternalSignerNeedsItsKeyID(t *testing.T) {
	hc, pub := helper(t)
	h := start(t, hc)
	dir, _ := generate(t)
	open := func(id, seed string) error {
		cfg := config(dir)
		cfg.External, cfg.EventKeyID, cfg.EventSeedFile = h, id, seed
		k, err := keyring.Open(cfg)
		if (k == nil) != (err != nil) {
			t.Error("a keyring beside an error")
		}
		return err
	}
	for id, want := range map[string]error{"": keyring.ErrConfig, keyring.KeyID(pub): keyring.ErrMismatch, h.KeyID(): keyring.ErrNotRegistered} {
		if err := open(id, ""); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", id, err, want)
		}
	}
	if err := open(h.KeyID(), "/x"); !errors.Is(err, keyring.ErrConfig) {
		t.Errorf("with a seed file: %v", err)
	}
	path := filepath.Join(dir, keyring.RegistryFile)
	r, err := keyring.LoadRegistry(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Register(h.KeyID(), pub, 0); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Register(keyring.KeyID(pub), pub, 0); !errors.Is(err, keyring.ErrConflict) {
		t.Errorf("one key in two schemes: %v", err)
	}
	mustDo(t, r.Save(path))
	if err := open(h.KeyID(), ""); err != nil {
		t.Error(err)
	}
}

func BenchmarkHelper(b *testing.B) {
	path, err := buildHelper()
	if err != nil {
		b.Fatal(err)
	}
	seed := filepath.Join(b.TempDir(), "seed")
	if _, err := keyring.GenerateSeed(seed, rand.Reader); err != nil {
		b.Fatal(err)
	}
	h, err := keyring.StartHelper(b.Context(), keyring.HelperConfig{Path: path, Env: []string{"COUNTERFOIL_SIGNER_SEED=" + seed},
		Limit: 10 * time.Second, InFlight: 64, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	s := keyring.Verified(h)
	pae := event.PAE(event.PayloadType, make([]byte, 700))
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Sign(pae); err != nil {
				b.Error(err)
			}
		}
	})
}
