package app_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

func (l *ledger) keys() (signing string, byID map[string]obj) {
	l.t.Helper()
	out := l.want(http.StatusOK, "GET", "/v1/keys", nil)
	byID = map[string]obj{}
	for _, k := range out["keys"].([]any) {
		byID[text(k, "keyId")] = k.(obj)
	}
	return text(out, "signing"), byID
}

func (l *ledger) rotate() string {
	l.t.Helper()
	return text(l.want(http.StatusOK, "POST", "/v1/keys/rotate", nil), "keyId")
}

// signedBy tells the key of each event of a bundle.
func signedBy(t testing.TB, rep *receipt.Report) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, k := range rep.Signatures.Keys {
		out[k.KeyID] = k.Receipts
	}
	return out
}

// TestATT20_ATT23_ATT28_ARotationInTheMiddleOfAChain: receipts from before and after a
// rotation, also of one attempt, verify with one trust file; so does a new start.
func TestATT20_ATT23_ATT28_ARotationInTheMiddleOfAChain(t *testing.T) {
	l := newLedger(t)
	old, _ := l.keys()
	before := l.trust()
	early := text(l.begin("early"), "attemptId")
	across := text(l.begin("across"), "attemptId")
	fresh := l.rotate()
	signing, keys := l.keys()
	if signing != fresh || fresh == old || text(keys[old], "status") != "retired" || text(keys[fresh], "status") != "active" {
		t.Fatalf("signing %s, keys %v", signing, keys)
	}
	l.append(across, "after", `"lifecycle":"outcome","status":"succeeded"`)
	late := text(l.begin("late"), "attemptId")

	mixed := l.get("/v1/bundle?attempt=" + early + "&attempt=" + across + "&attempt=" + late)
	if got := signedBy(t, l.verified(mixed)); got[old] != 2 || got[fresh] != 2 {
		t.Errorf("receipts by key: %v", got)
	}
	// The verdict warns of the retired key, and of no other (ATT-20).
	for _, k := range l.verified(mixed).Signatures.Keys {
		if (k.RetiredFrom != nil) != (k.KeyID == old) || k.RevokedFrom != nil {
			t.Errorf("key %s: retired from %v, revoked from %v", k.KeyID, k.RetiredFrom, k.RevokedFrom)
		}
	}
	// A verifier with the trust file of before knows the old key alone.
	if rep := receipt.Verify(mixed, before, receipt.Options{}); rep.Status != receipt.Failed {
		t.Errorf("with the old trust file: %s", rep.Status)
	}
	// The old key signs nothing from here on: a leaf of it at a later index does
	// not count.
	var oldKey trust.EventKey
	for _, k := range l.trust().EventKeys.Keys() {
		if k.KeyID == old {
			oldKey = k
		}
	}
	if oldKey.ToIndex == nil || *oldKey.ToIndex > uint64(l.streamLast()) {
		t.Errorf("the old key may sign up to %v of %v leaves", oldKey.ToIndex, l.streamLast())
	}
	dir := l.Ready.Data
	l.stop()
	l = startLedger(t, dir)
	if now, _ := l.keys(); now != fresh {
		t.Errorf("after a start %s signs", now)
	}
	l.append(late, "x", `"lifecycle":"outcome","status":"failed"`)
	l.verified(l.get("/v1/bundle?attempt=" + across + "&attempt=" + late))
	// The begin of before the rotation is repeated: the stored receipt, by the old key (ATT-23).
	again := l.want(http.StatusOK, "POST", "/v1/attempts", beginBody("early", `{"n":1}`))
	if sigs := at(again, "commitment.signatures").([]any); text(sigs[0], "keyId") != old {
		t.Errorf("the repeat is signed by %v", sigs)
	}
}

// TestATT19_KeyChangesAreEvents: each change is an attempt of kind key with its
// outcome, and says what changed.
func TestATT19_KeyChangesAreEvents(t *testing.T) {
	l := newLedger(t)
	old, _ := l.keys()
	fresh := l.rotate()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := keyring.KeyID(pub)
	register := fmt.Appendf(nil, `{"keyId":%q,"publicKey":%q}`, id, base64.StdEncoding.EncodeToString(pub))
	first := l.want(http.StatusOK, "POST", "/v1/keys", register)
	if again := l.want(http.StatusOK, "POST", "/v1/keys", register); fmt.Sprint(again) != fmt.Sprint(first) { // ATT-18
		t.Errorf("registered again: %v, first %v", again, first)
	}
	l.want(http.StatusOK, "POST", "/v1/keys/"+id+"/status", []byte(`{"status":"disabled"}`))
	var got []string
	for _, r := range l.settled("/v1/receipts?kind=key")["receipts"].([]any) {
		line := text(r, "action.name") + " " + text(r, "lifecycle") + " " + text(r, "action.status") + " " + text(r, "statement.key.keyId")
		got = append(got, strings.TrimSpace(line))
	}
	want := []string{
		"key.registered attempt requested " + fresh, "key.registered outcome succeeded",
		"key.retired attempt requested " + old, "key.retired outcome succeeded",
		"key.registered attempt requested " + id, "key.registered outcome succeeded",
		"key.disabled attempt requested " + id, "key.disabled outcome succeeded",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestATT18_ATT19_KeyChangesThatAreRefused(t *testing.T) {
	l := newLedger(t)
	signing, _ := l.keys()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.StdEncoding.EncodeToString
	id := keyring.KeyID(pub)
	l.want(http.StatusOK, "POST", "/v1/keys", fmt.Appendf(nil, `{"keyId":%q,"publicKey":%q}`, id, b64(pub)))
	events := l.streamLast()
	other := b64(make([]byte, 32))
	for _, test := range []struct {
		name, path, body string
		status           int
		code             string
	}{
		{"same id, other material", "/v1/keys", fmt.Sprintf(`{"keyId":%q,"publicKey":%q}`, id, other), 409, "conflict"},
		{"same key, other scheme", "/v1/keys", fmt.Sprintf(`{"keyId":%q,"publicKey":%q}`, event.PrehashKeyID(pub), b64(pub)), 409, "conflict"},
		{"an id that is not the key's", "/v1/keys", fmt.Sprintf(`{"keyId":%q,"publicKey":%q}`, keyring.KeyID(make([]byte, 31)), other), 400, "invalid_request"},
		{"key without padding", "/v1/keys", fmt.Sprintf(`{"keyId":%q,"publicKey":%q}`, id, strings.TrimRight(other, "=")), 400, "invalid_request"},
		{"unknown member", "/v1/keys", `{"keyId":"x","publicKey":"","status":"active"}`, 400, "invalid_request"},
		{"not JSON", "/v1/keys", `x`, 400, "invalid_request"},
		{"retire the key that signs", "/v1/keys/" + signing + "/status", `{"status":"retired"}`, 409, "conflict"},
		{"revoke the key that signs", "/v1/keys/" + signing + "/status", `{"status":"revoked","fromIndex":0}`, 409, "conflict"},
		{"back to active", "/v1/keys/" + id + "/status", `{"status":"active"}`, 400, "invalid_request"},
		{"retire in the past", "/v1/keys/" + id + "/status", `{"status":"retired","fromIndex":0}`, 409, "conflict"},
		{"revoke in the future", "/v1/keys/" + id + "/status", `{"status":"revoked","fromIndex":1000}`, 409, "conflict"},
		{"no such key", "/v1/keys/ed25519:x/status", `{"status":"retired"}`, 404, "not_found"},
	} {
		status, out := l.do("POST", test.path, []byte(test.body))
		if status != test.status || text(out, "error.code") != test.code || text(out, "error.hint") == "" {
			t.Errorf("%s: %d %v, want %d %s", test.name, status, out, test.status, test.code)
		}
	}
	if now := l.streamLast(); now != events {
		t.Errorf("what was refused left %v events", now-events)
	}
	if code, _ := l.raw("POST", "/v1/keys/rotate", nil, "wrong"); code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", code)
	}
}

// TestATT21_ARevocationThatReachesBack: events of the revoked key from the named
// leaf on count no more, before it they do; index and views follow with a new start.
func TestATT21_ARevocationThatReachesBack(t *testing.T) {
	l := newLedger(t)
	old, _ := l.keys()
	good := text(l.begin("good"), "attemptId")
	bad := l.begin("stolen")
	l.rotate()
	from := bad["leafIndex"].(float64)
	l.want(http.StatusOK, "POST", "/v1/keys/"+old+"/status", fmt.Appendf(nil, `{"status":"revoked","fromIndex":%d}`, int(from)))
	dir := l.Ready.Data
	l.stop()
	l = startLedger(t, dir)
	l.verified(l.get("/v1/bundle?attempt=" + good))
	if code, out := l.do("GET", "/v1/attempts/"+text(bad, "attemptId"), nil); code != http.StatusNotFound {
		t.Errorf("the attempt of the revoked key: %d %v", code, out)
	}
	parked := l.settled("/v1/parked")["parked"].([]any)
	if len(parked) == 0 || at(parked[0], "leafIndex") != from || !strings.Contains(text(parked[0], "detail"), "key revoked") {
		t.Errorf("parked: %v", parked)
	}
	// The same call can be recorded again, by the key of now.
	l.begin("stolen")
	if _, err := os.Stat(filepath.Join(dir, "derived.stale")); err == nil {
		t.Error("the note of stale data is still there")
	}
}

// TestATT32_ATT33_AnExternalSigner: a ledger whose events a helper signs, from the
// registration of its key on; when the helper is gone nothing is recorded.
func TestATT32_ATT33_ATT35_AnExternalSigner(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "signer")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, "counterfoil/cmd/counterfoil-signer-file").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	seed := filepath.Join(t.TempDir(), "seed")
	pub, err := keyring.GenerateSeed(seed, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	id := event.PrehashKeyID(pub)
	l := newLedger(t)
	before := text(l.begin("before"), "attemptId")
	old, _ := l.keys()
	l.want(http.StatusOK, "POST", "/v1/keys", fmt.Appendf(nil, `{"keyId":%q,"publicKey":%q}`, id, base64.StdEncoding.EncodeToString(pub)))
	dir := l.Ready.Data
	l.stop()

	external := func(c *app.Config) {
		c.EventKeyID = id
		c.Signer = &keyring.HelperConfig{Path: bin, Env: []string{"COUNTERFOIL_SIGNER_SEED=" + seed}, Limit: 5 * time.Second, InFlight: 256, Logger: slog.New(slog.DiscardHandler)}
	}
	l = startLedger(t, dir, external)
	if now, _ := l.keys(); now != id {
		t.Fatalf("%s signs", now)
	}
	l.append(before, "x", `"lifecycle":"outcome","status":"succeeded"`)
	if code, out := l.do("POST", "/v1/keys/rotate", nil); code != http.StatusConflict {
		t.Errorf("rotate: %d %v", code, out)
	}
	l.want(http.StatusOK, "POST", "/v1/keys/"+old+"/status", []byte(`{"status":"retired"}`))
	if got := signedBy(t, l.verified(l.get("/v1/bundle?attempt="+before))); got[old] != 1 || got[id] != 1 {
		t.Errorf("receipts by key: %v", got)
	}

	// The helper's seed goes, and so does the helper.
	if err := os.Rename(seed, seed+".away"); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("pkill", "-f", bin).CombinedOutput(); err != nil {
		t.Skipf("cannot end the helper: %v %s", err, out)
	}
	events := l.streamLast()
	code, out := l.do("POST", "/v1/attempts", beginBody("unsigned", `1`))
	if code != http.StatusServiceUnavailable || text(out, "error.reason") != "signer_unavailable" || l.streamLast() != events {
		t.Errorf("without the helper: %d %v, %v events more", code, out, l.streamLast()-events)
	}
	if err := os.Rename(seed+".away", seed); err != nil {
		t.Fatal(err)
	}
	l.begin("unsigned")
}

// TestATT21_ARevocationEndsNoHold: notices of legal holds and erasures that a
// revoked key signed are announced again; what was held stays held, and a copy that
// is restored later learns of the erasures.
func TestATT21_PRV01_ARevocationEndsNoHold(t *testing.T) {
	l := newLedger(t)
	old, _ := l.keys()
	held, erased := text(l.begin("held"), "attemptId"), text(l.begin("erased"), "attemptId")
	from := l.streamLast()
	l.hold(obj{"attempt": held})
	released := text(l.hold(obj{"attempt": erased}), "holdId")
	l.want(http.StatusOK, "POST", "/v1/holds/"+released+"/release", nil)
	l.erase("purged", erased)
	l.rotate()
	l.want(http.StatusOK, "POST", "/v1/keys/"+old+"/status", fmt.Appendf(nil, `{"status":"revoked","fromIndex":%d}`, int(from)))
	dir := l.Ready.Data
	for range 2 { // the second start finds nothing to repeat
		l.stop()
		l = startLedger(t, dir)
		if holds := l.holds(); len(holds) != 1 || text(holds[0], "attempt") != held {
			t.Fatalf("holds: %v", holds)
		}
		if code, out := l.do("POST", "/v1/erasures", encoded(t, obj{"state": "purged", "attempts": []string{held}, "confirm": true})); code == http.StatusOK {
			t.Fatalf("the held attempt was erased: %v", out)
		}
		if code, _ := l.do("POST", "/v1/attempts", beginBody("erased", `{"n":1}`)); code != http.StatusGone {
			t.Error("the erased attempt can be compared again")
		}
		erasures := 0
		for _, r := range l.settled("/v1/receipts?kind=ledger")["receipts"].([]any) {
			if at(r, "statement.erasure") != nil {
				erasures++
			}
		}
		if erasures != 1 {
			t.Errorf("%d notices of erasures count", erasures)
		}
	}
}
