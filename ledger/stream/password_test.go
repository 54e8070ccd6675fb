package stream

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPasswordFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p")
	write := func(s string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("geheim/@:\n")
	got, err := WithPassword("nats://ledger@a:4222, tls://ledger@b:4222", file)
	if want := "nats://ledger:geheim%2F%40%3A@a:4222,tls://ledger:geheim%2F%40%3A@b:4222"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	if got, err := WithPassword("nats://a:4222", ""); err != nil || got != "nats://a:4222" {
		t.Errorf("%q, %v", got, err)
	}
	for _, urls := range []string{"nats://a:4222", "nats://u:p@a:4222", "a:4222", "", "nats://u@a,nats://b"} {
		if _, err := WithPassword(urls, file); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", urls, err)
		}
	}
	for _, content := range []string{"", "\n", "two\nlines", strings.Repeat("x", maxPasswordBytes+1)} {
		write(content)
		if _, err := WithPassword("nats://u@a", file); err == nil || !strings.Contains(err.Error(), "no password") {
			t.Errorf("%.20q: %v", content, err)
		}
	}
}
