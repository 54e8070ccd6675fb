package app_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"counterfoil/ledger/commit"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
	"counterfoil/ledger/stream"
	"counterfoil/ledger/vault"
)

// slip puts leaves on the stream of a stopped ledger as another publisher could.
func slip(t testing.TB, dir, origin string, leaves ...[]byte) {
	t.Helper()
	keys, err := keyring.Open(keyring.Config{Dir: filepath.Join(dir, "keys"), Origin: origin})
	if err != nil {
		t.Fatal(err)
	}
	s, err := stream.Open(t.Context(), stream.Config{Dir: filepath.Join(dir, "stream"), Tenant: "default", Origin: origin, Fingerprint: keys.TenantFingerprint()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}()
	for _, leaf := range leaves {
		subject := event.SubjectOfLeaf(leaf)
		last, err := s.LastSeq(t.Context(), subject)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Publish(t.Context(), stream.Msg{Subject: subject, Body: leaf}, subject, last); err != nil {
			t.Fatal(err)
		}
	}
}

// Leaves that another publisher wrote are logged as they are and count for
// nothing: unsigned, signed by a stranger, garbage, or a record a second time.
func TestATT01_ATT02_UnsignedLeavesAreParked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	o := newLedger(t)
	o.fill("foreign", 1)
	foreign := bytes.Clone(o.events("")[0].Record)
	id := text(l.begin("inv"), "attemptId")
	l.settled("/v1/receipts")
	good := bytes.Clone(l.events("")[0].Record)
	rec, err := event.ParseRecord(good)
	if err != nil {
		t.Fatal(err)
	}
	other := *rec.Event
	other.Source.InvocationID = "never begun"
	scope := event.ScopeOf(other.Tenant, other.Source.RuntimeID, other.Source.InvocationID)
	other.AttemptID = event.NewAttemptID(scope.Shard(), [15]byte{7})
	unsigned := event.AppendLeaf(nil, other.Append(nil), []byte("[]"))
	moved := event.AppendLeaf(nil, other.Append(nil), rec.SignatureBytes) // a true signature of something else
	origin := l.Ready.Origin
	l.stop()
	slip(t, dir, origin, unsigned, moved, foreign, []byte("no record"), []byte{0, 0xff}, good)

	l = startLedger(t, dir)
	l.fill("after", 1)
	parked := l.settled("/v1/parked")["parked"].([]any)
	if len(parked) != 6 {
		t.Errorf("%d leaves are parked, want 6: %v", len(parked), parked)
	}
	for i, p := range parked {
		if p.(obj)["leafIndex"] != float64(i+1) || text(p, "reason") == "" || text(p, "leafHash") == "" {
			t.Errorf("parked %d: %v", i, p)
		}
	}
	for i, e := range l.events("") {
		switch { // the record that came twice has a good signature; that it counts once is the views' to say
		case i == 0 || i >= 6:
			if e.Parked != "" || e.Record == nil {
				t.Errorf("event %d: %+v", i, e)
			}
		case e.Parked == "" || e.Record != nil || e.EventID != "":
			t.Errorf("event %d counts: %+v", i, e)
		}
	}
	for _, path := range []string{"/v1/receipts", "/v1/attempts", "/v1/attempts/" + id} {
		for _, bad := range []string{other.AttemptID, "never begun", "foreign-0"} {
			if strings.Contains(string(l.get(path)), bad) {
				t.Errorf("GET %s shows %s", path, bad)
			}
		}
	}
	if n := len(l.settled("/v1/receipts")["receipts"].([]any)); n != 2 {
		t.Errorf("%d receipts, want 2", n)
	}
	for _, path := range []string{"/v1/attempts/" + other.AttemptID, "/v1/attempts/" + other.AttemptID + "/bundle"} {
		if code, out := l.do("GET", path, nil); code != http.StatusNotFound {
			t.Errorf("GET %s: %d %v", path, code, out)
		}
	}
	// The attempt goes on as if nothing had been slipped in, and its scope is free.
	l.append(id, "o", `"lifecycle":"outcome","status":"succeeded"`)
	l.verified(l.get("/v1/attempts/" + id + "/bundle"))
	l.begin("never begun")
}

// keepBody keeps the private values, and only then; what is kept opens the
// commitment in the log.
func TestCaseBigPayload_BodyIsInTheVault(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := startLedger(t, dir)
	big := `"` + strings.Repeat("x", 5<<20) + `"`
	kept := l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody("kept", `1`), "privateInput", raws(big), "keepBody", true))
	not := l.want(http.StatusCreated, "POST", "/v1/attempts", patched(t, beginBody("not", `1`), "privateInput", raws(big)))
	origin := l.Ready.Origin
	l.stop()
	keys, err := keyring.Open(keyring.Config{Dir: filepath.Join(dir, "keys"), Origin: origin})
	if err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(filepath.Join(dir, "vault"), keys.VaultSealKey().Array(), vault.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	o, err := v.Opening(text(kept, "attemptId"), commit.SlotBegin, commit.NameInput)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := commit.ParseDigest(text(kept, "commitments.input"))
	if err != nil {
		t.Fatal(err)
	}
	if string(o.Value) != big {
		t.Errorf("the vault has %d bytes, want %d", len(o.Value), len(big))
	}
	if got := commit.Commitment(o.Name, o.Salt, o.Value); got != digest {
		t.Errorf("the kept value does not open the commitment %x", digest)
	}
	if _, err := v.Body(text(not, "attemptId"), commit.SlotBegin, commit.NameInput); err == nil {
		t.Error("a value was kept that nobody asked to keep")
	}
}
