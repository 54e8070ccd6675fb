package app_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/event"
	"counterfoil/ledger/receipt"
)

func tryStart(t testing.TB, dir string, change func(*app.Config)) error {
	t.Helper()
	cfg := app.Config{Dir: dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Random: rand.Reader, Now: time.Now}
	if change != nil {
		change(&cfg)
	}
	s, err := app.Start(context.Background(), cfg)
	if err == nil {
		err = errors.Join(errors.New("it started"), s.Stop(context.Background()))
		t.Errorf("%v", err)
	}
	return err
}

// A key that cannot be trusted stops the start; there is no start without a
// signer, and nothing is created in the key's place.
func TestATT14_ATT15_ATT16_BadKeysStopTheStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	l.begin("inv")
	l.stop()
	keys := filepath.Join(dir, "keys")
	other := filepath.Join(t.TempDir(), "other")
	o := startLedger(t, other)
	o.stop()
	entries, err := os.ReadDir(keys)
	if err != nil {
		t.Fatal(err)
	}
	good := map[string][]byte{}
	for _, e := range entries {
		good[e.Name()] = []byte(readFile(t, filepath.Join(keys, e.Name())))
	}
	restore := func() {
		for name, b := range good {
			p := filepath.Join(keys, name)
			if err := errors.Join(os.RemoveAll(p), os.WriteFile(p, b, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range []string{"event.key", "log.key", "tenant.key", "registry.json"} {
		p := filepath.Join(keys, name)
		for what, damage := range map[string]func() error{
			"missing":       func() error { return os.Remove(p) },
			"empty":         func() error { return os.WriteFile(p, nil, 0o600) },
			"shorter":       func() error { return os.WriteFile(p, good[name][:len(good[name])/2], 0o600) },
			"longer":        func() error { return os.WriteFile(p, append(append([]byte{}, good[name]...), good[name]...), 0o600) },
			"of another":    func() error { return os.WriteFile(p, []byte(readFile(t, filepath.Join(other, "keys", name))), 0o600) },
			"open to group": func() error { return os.Chmod(p, 0o660) },
			"a symlink": func() error {
				return errors.Join(os.Rename(p, p+".real"), os.Symlink(p+".real", p))
			},
			"a directory": func() error { return errors.Join(os.Remove(p), os.Mkdir(p, 0o700)) },
		} {
			if err := damage(); err != nil {
				t.Fatal(err)
			}
			if err := tryStart(t, dir, nil); err == nil {
				t.Errorf("%s is %s: it started", name, what)
			}
			_ = os.Remove(p + ".real")
			restore()
		}
	}
	// One half of an external key is no key (ATT-14).
	for _, change := range []func(*app.Config){
		func(c *app.Config) { c.EventKeyID = "ed25519:" + strings.Repeat("0", 64) },
		func(c *app.Config) { c.EventSeedFile = filepath.Join(keys, "event.key") },
	} {
		if err := tryStart(t, dir, change); err == nil || !strings.Contains(err.Error(), "both") {
			t.Errorf("half of an event key: %v", err)
		}
	}
	l = startLedger(t, dir)
	if got := l.streamLast(); got != 1 {
		t.Errorf("after all that the stream has %v events, want 1", got)
	}
}

// Another event key than the registered one is refused, and loading it does not
// register it.
func TestATT16_ATT17_UnregisteredKeys(t *testing.T) {
	dir, other := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "other")
	startLedger(t, dir).stop()
	o := startLedger(t, other)
	foreign := o.trust().EventKeys.Keys()[0].KeyID
	o.stop()
	registry := readFile(t, filepath.Join(dir, "keys", "registry.json"))
	for range 2 {
		err := tryStart(t, dir, func(c *app.Config) {
			c.EventKeyID, c.EventSeedFile = foreign, filepath.Join(other, "keys", "event.key")
		})
		if err == nil || !strings.Contains(err.Error(), "regist") {
			t.Errorf("an unregistered key: %v", err)
		}
		if now := readFile(t, filepath.Join(dir, "keys", "registry.json")); now != registry {
			t.Errorf("loading changed the registry: %s", now)
		}
	}
}

func TestDUR01_DUR04_Profiles(t *testing.T) {
	l := newLedger(t)
	if got := text(l.want(http.StatusOK, "GET", "/v1/status", nil), "durability"); got != "hardened" {
		t.Errorf("default profile %q", got)
	}
	if s := text(l.begin("inv"), "stage"); s == "accepted" {
		t.Errorf("hardened answered at stage %s", s)
	}
	dir := filepath.Join(t.TempDir(), "data")
	for _, name := range []string{"Hardened", "fast", "none", "hardened ", "sync"} {
		err := tryStart(t, dir, func(c *app.Config) { c.Durability = name })
		if err == nil || !strings.Contains(err.Error(), "hardened") || !strings.Contains(err.Error(), "balanced") {
			t.Errorf("profile %q: %v", name, err)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("profile %q made a data directory: %v", name, err)
		}
	}
	b := startLedger(t, dir, func(c *app.Config) { c.Durability = app.Balanced })
	if got := text(b.want(http.StatusOK, "GET", "/v1/status", nil), "durability"); got != "balanced" {
		t.Errorf("profile %q, chose balanced", got)
	}
}

// docs reads a page of the documentation as one line.
func docs(t testing.TB, name string) string {
	t.Helper()
	return strings.Join(strings.Fields(readFile(t, filepath.Join("..", "..", name))), " ")
}

func TestDUR02_NoProfilePromisesWhatHardwareDoesNot(t *testing.T) {
	if !strings.Contains(docs(t, "docs/limits.md"), "Neither profile promises to survive a power loss on hardware that does not honour flushes.") {
		t.Error("docs/limits.md does not say what neither profile promises")
	}
	if !strings.Contains(docs(t, "docs/spec/http.md"), "A power loss can cost it on a ledger of the profile `balanced`") {
		t.Error("docs/spec/http.md does not say what accepted may cost")
	}
}

func TestCLM01_CLM03_CLM09_TextsGoWithEveryAnswer(t *testing.T) {
	l := newLedger(t)
	id := l.attemptWith("inv", `1`)
	o := l.append(id, "o", `"lifecycle":"outcome","status":"unknown"`)
	l.reconcile(id, "r", `{"source":"s","observed":"absent"}`)
	l.append(id, "v", fmt.Sprintf(`"lifecycle":"reversal","status":"failed","refs":{"reverses":%q}`, text(o, "eventId")))
	l.append(id, "w", fmt.Sprintf(`"lifecycle":"review","status":"noted","rubric":"r1","refs":{"reviews":%q}`, text(o, "eventId")))
	bundle := l.get("/v1/attempts/" + id + "/bundle")
	b := decoded(t, bundle)
	texts := b["claimBoundaries"].(obj)
	for _, e := range b["entries"].([]any) {
		code := text(e, "artifact.receipt.claimBoundary")
		if s, _ := texts[code].(string); len(s) < 40 {
			t.Errorf("the bundle has no text for %q", code)
		}
	}
	for _, path := range []string{"/v1/attempts/" + id, "/v1/receipts"} {
		for _, r := range l.settled2(path) {
			if text(r, "claimBoundary") == "" {
				t.Errorf("%s: a receipt without claim boundary: %v", path, r)
			}
		}
	}
	rep := l.verified(bundle)
	if len(rep.Claims) == 0 || len(rep.NotClaimed) == 0 {
		t.Errorf("claims %v, not claimed %v", rep.Claims, rep.NotClaimed)
	}
	// "Exactly once" stands in the bundle only where it is said not to be shown.
	const denied = "this does not show that the effect exists in the world, that it happened exactly once"
	all := strings.ToLower(string(bundle))
	for _, word := range []string{"exactly once", "exactly-once"} {
		if n := strings.Count(all, word); n != strings.Count(all, denied)*strings.Count(denied, word) {
			t.Errorf("the bundle says %q %d times, and not only to deny it", word, n)
		}
		if strings.Contains(strings.ToLower(fmt.Sprint(rep.Claims)), word) {
			t.Errorf("claims say %q: %q", word, rep.Claims)
		}
	}
	// A bundle whose texts are missing or stronger is not verified.
	for what, bad := range map[string]string{
		"stronger": strings.Replace(string(bundle), "does not show", "shows", 1),
		"missing":  strings.Replace(string(bundle), `"outcome_self_asserted_v1":"`, `"outcome_self_asserted_v2":"`, 1),
	} {
		if bad == string(bundle) {
			t.Fatalf("%s: nothing was changed", what)
		}
		if rep := receipt.Verify([]byte(bad), l.trust(), receipt.Options{}); rep.ExitCode() == 0 {
			t.Errorf("%s boundary text verifies", what)
		}
	}
}

// settled2 returns the receipts of an answer that is up to date.
func (l *ledger) settled2(path string) []any {
	l.t.Helper()
	return l.settled(path)["receipts"].([]any)
}

// A statement that counts is consistent, or it is no event (ATT-31).
func TestATT31_CountsOfANotice(t *testing.T) {
	for _, g := range []event.Gap{{From: 0, To: 1, Count: 1}, {From: 5, To: 4, Count: 1}, {From: 1, To: 3, Count: 4}, {From: 1, To: 3, Count: 0}, {From: 1, To: 3, Count: -1}} {
		if err := notice(g).Validate(); err == nil {
			t.Errorf("%+v is accepted", g)
		}
	}
	for _, g := range []event.Gap{{From: 1, To: 1, Count: 1}, {From: 1, To: 3, Count: 3}, {From: 4, To: 9, Count: 2}} {
		if err := notice(g).Validate(); err != nil {
			t.Errorf("%+v: %v", g, err)
		}
	}
}

func notice(g event.Gap) *event.Event {
	scope := event.ScopeOf("default", "ledger:x", "gap:1")
	return &event.Event{Schema: event.Schema, Ledger: "example.com/x", Tenant: "default", AttemptID: event.NewAttemptID(scope.Shard(), [15]byte{1}), Revision: 1,
		Lifecycle: event.Attempt, Subject: event.Subject{Kind: event.Ledger, ID: "example.com/x"}, OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.000Z",
		Source: event.Source{RuntimeID: "ledger:x", AgentID: "ledger", InvocationID: "gap:1", Protocol: "counterfoil", Implementation: "counterfoil", Assurance: event.SelfAsserted},
		Action: event.Action{Name: "gap", EffectKind: "ledger_notice", EffectMode: "one_time"}, Status: event.StatusRequested,
		ClaimBoundary: event.ClaimBoundaryFor(event.Attempt, event.Ledger), Statement: g.Value()}
}

// A digest binds key id and signature: another of either is another leaf, and no
// leaf has a second spelling.
func TestATT29_OneSpellingOfARecord(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 1)
	leaf := string(l.events("")[0].Record)
	rec, err := event.ParseRecord([]byte(leaf))
	if err != nil {
		t.Fatal(err)
	}
	sig := leaf[strings.Index(leaf, `"sig":"`)+len(`"sig":"`) : strings.LastIndex(leaf, `"`)]
	if !strings.HasSuffix(sig, "==") || rec.Signatures[0].KeyID == "" {
		t.Fatalf("signature %q", sig)
	}
	for what, bad := range map[string]string{
		"white space": strings.Replace(leaf, `,"signatures"`, `, "signatures"`, 1), "a final line break": leaf + "\n",
		"no padding": strings.Replace(leaf, sig, strings.TrimRight(sig, "="), 1), "escaped": strings.Replace(leaf, sig, `\u00`+fmt.Sprintf("%02x", sig[0])+sig[1:], 1),
		"line break in base64": strings.Replace(leaf, sig, sig[:8]+`\n`+sig[8:], 1), "url-safe": strings.Replace(leaf, sig, strings.NewReplacer("+", "-", "/", "_").Replace("+/"+sig[2:]), 1),
		"loose last bits": strings.Replace(leaf, sig, sig[:len(sig)-3]+string(sig[len(sig)-3]+1)+"==", 1),
	} {
		if _, err := event.ParseRecord([]byte(bad)); err == nil {
			t.Errorf("%s: a second spelling is accepted", what)
		}
	}
	keys := l.trust().EventKeys
	for what, bad := range map[string]string{
		"key id":    strings.Replace(leaf, rec.Signatures[0].KeyID, "ed25519:"+strings.Repeat("0", 64), 1),
		"signature": strings.Replace(leaf, sig, strings.Repeat("A", len(sig)-2)+"==", 1),
	} {
		r, err := event.ParseRecord([]byte(bad))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if _, err := keys.Check(r, 0); err == nil {
			t.Errorf("another %s is accepted", what)
		}
	}
}
