package app_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/internal/access"
	"counterfoil/internal/app"
	"counterfoil/internal/testkit/outkit"
)

// No secret of the ledger's or of a caller's is in its log, at the level that says
// most, or in any file but its own: tokens that are right, wrong or in the wrong
// place, seeds, and what is kept of tokens.
func TestPRV08_EVI05_SecretsAreNowhereElse(t *testing.T) {
	log := new(outkit.Buffer)
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir, func(c *app.Config) {
		c.Logger = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.NATSListen, c.RatePerToken = "127.0.0.1:0", 50
	})
	const wrong = "CANARY-WRONG-0123456789abcdef0123456789abcdef"
	made := withToken(t, dir, "made", access.Writer)
	for _, token := range []string{l.Token, made, wrong} {
		for _, path := range []string{"/v1/status", "/v1/keys", "/nothing", "/v1/status?access_token=" + token, "/metrics", "/mcp", "/counterfoil.v1.LedgerService/GetStatus"} {
			for _, method := range []string{"GET", "POST"} {
				_, h, body := l.send(method, path, `{"token":"`+token+`"}`, "Authorization", "Bearer "+token, "Content-Type", "application/json", "Cookie", "token="+token)
				if strings.Contains(body, token) || strings.Contains(strings.Join(h.Values("WWW-Authenticate"), " "), token) {
					t.Errorf("%s %s shows the token: %s", method, strings.SplitN(path, "?", 2)[0], body)
				}
			}
		}
	}
	l.want(http.StatusCreated, "POST", "/v1/attempts?wait=published", beginBody("inv", `1`))
	l.want(http.StatusOK, "POST", "/v1/keys/rotate", []byte(`{}`))
	if err := access.Revoke(filepath.Join(dir, access.File), "made"); err != nil {
		t.Fatal(err)
	}
	l.call("GET", "/v1/status", "Bearer "+made, "")
	first := l.Token
	if err := l.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.Server = nil

	secrets := map[string]string{"the first token": first, "a token that was made": made, "a wrong token": wrong}
	own := map[string]string{"the first token": filepath.Join(dir, "token")}
	for _, name := range []string{"consumer.token", "keys"} {
		err := filepath.WalkDir(filepath.Join(dir, name), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".json") || d.Name() == "signer" { // ids and public keys
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text := strings.TrimSpace(string(b))
			secrets[path], own[path] = text, path
			if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
				secrets[path+" in hex"], own[path+" in hex"] = hex.EncodeToString(raw), path
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(secrets) < 6 {
		t.Fatalf("only %d secrets", len(secrets))
	}
	if !strings.Contains(log.String(), `"level":"DEBUG"`) || !strings.Contains(log.String(), "counts no more") {
		t.Fatalf("the log says little: %s", log)
	}
	for what, secret := range secrets {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log shows %s", what)
		}
		err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || path == own[what] {
				return err
			}
			b, err := os.ReadFile(path)
			if bytes.Contains(b, []byte(secret)) {
				t.Errorf("%s shows %s", path, what)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
