package vectors

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// load reads a vector file strictly: a member that no test looks at is an error.
func load(t *testing.T, name string, v any) {
	t.Helper()
	if err := strict(file(t, name), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// loadSome reads a part of a vector file that another test reads as a whole.
func loadSome(t *testing.T, name string, v any) {
	t.Helper()
	if err := json.Unmarshal(file(t, name), v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func strict(b []byte, v any) error { return json.Unmarshal(b, v, json.RejectUnknownMembers(true)) }

func unb64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.Strict().DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// some fails if a set of vectors is empty: a test over nothing proves nothing.
func some[T any](t *testing.T, name string, set []T) []T {
	t.Helper()
	if len(set) == 0 {
		t.Fatalf("no vectors in %s", name)
	}
	return set
}

var profiles = map[string]canon.Profile{"restricted": canon.Restricted, "private": canon.Private}

func TestATT05_ATT06_CanonicalJSON(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Accept      []struct {
			Rule      string   `json:"rule"`
			Profiles  []string `json:"profiles"`
			Input     string   `json:"input"`
			Canonical string   `json:"canonical"`
		} `json:"accept"`
		Reject []struct {
			Rule     string   `json:"rule"`
			Profiles []string `json:"profiles"`
			Input    string   `json:"inputBase64"`
			Reason   string   `json:"reason"`
			Path     *string  `json:"path"`
		} `json:"reject"`
		Size []struct {
			Rule    string  `json:"rule"`
			Profile string  `json:"profile"`
			Prefix  string  `json:"prefix"`
			Unit    string  `json:"unit"`
			Times   int     `json:"times"`
			Suffix  string  `json:"suffix"`
			Reason  *string `json:"reason"`
		} `json:"size"`
	}
	load(t, "canonical_json.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		for _, name := range some(t, "profiles", c.Profiles) {
			p := profiles[name]
			got, err := p.Canonical([]byte(c.Input))
			if err != nil || string(got) != c.Canonical {
				t.Errorf("%s, %s: got %s, %v; want %s", c.Rule, name, got, err, c.Canonical)
				continue
			}
			if err := p.CheckCanonical(got); err != nil {
				t.Errorf("%s, %s: canonical form is refused: %v", c.Rule, name, err)
			}
			var ce *canon.Error
			if err := p.CheckCanonical([]byte(c.Input)); c.Input != c.Canonical && (!errors.As(err, &ce) || ce.Reason != canon.ReasonNotCanonical) {
				t.Errorf("%s, %s: another spelling: got %v", c.Rule, name, err)
			}
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		for _, name := range some(t, "profiles", c.Profiles) {
			got, err := profiles[name].Canonical(unb64(t, c.Input))
			var ce *canon.Error
			if !errors.As(err, &ce) || ce.Reason != c.Reason || (c.Path != nil && ce.Path != *c.Path) {
				t.Errorf("%s, %s: got %s, %v; want %s", c.Rule, name, got, err, c.Reason)
			}
		}
	}
	for _, c := range some(t, "size", doc.Size) {
		_, err := profiles[c.Profile].Canonical([]byte(c.Prefix + strings.Repeat(c.Unit, c.Times) + c.Suffix))
		var ce *canon.Error
		if c.Reason == nil && err != nil || c.Reason != nil && (!errors.As(err, &ce) || ce.Reason != *c.Reason) {
			t.Errorf("%s, %s: got %v", c.Rule, c.Profile, err)
		}
	}
}

func TestATT05_ATT07_EVI23_Event(t *testing.T) {
	var doc struct {
		Description string `json:"description"`
		Accept      []struct {
			Rule    string `json:"rule"`
			Event   string `json:"event"`
			EventID string `json:"eventId"`
			Digest  string `json:"digest"`
			Subject string `json:"subject"`
			Shard   string `json:"shard"`
		} `json:"accept"`
		Reject []struct {
			Rule  string  `json:"rule"`
			Event string  `json:"eventBase64"`
			Path  *string `json:"path"`
		} `json:"reject"`
		Scope []struct {
			Rule         string `json:"rule"`
			Tenant       string `json:"tenant"`
			RuntimeID    string `json:"runtimeId"`
			InvocationID string `json:"invocationId"`
			Scope        string `json:"scope"`
			Shard        string `json:"shard"`
		} `json:"scope"`
	}
	load(t, "event.json", &doc)
	for _, c := range some(t, "accept", doc.Accept) {
		e, err := event.Parse([]byte(c.Event))
		if err != nil {
			t.Errorf("%s: %v", c.Rule, err)
			continue
		}
		d := event.DigestOf([]byte(c.Event))
		shard, _ := event.ShardOfAttempt(e.AttemptID)
		if d.EventID() != c.EventID || d.String() != c.Digest || e.StreamSubject() != c.Subject || shard != c.Shard {
			t.Errorf("%s: got %s, %s, %s, %s", c.Rule, d.EventID(), d, e.StreamSubject(), shard)
		}
		if got := e.Append(nil); string(got) != c.Event {
			t.Errorf("%s: written as\n%s\nwant\n%s", c.Rule, got, c.Event)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		_, err := event.Parse(unb64(t, c.Event))
		var ee *event.Error
		if !errors.As(err, &ee) || (c.Path != nil && ee.Path != *c.Path) {
			want := "any"
			if c.Path != nil {
				want = *c.Path
			}
			t.Errorf("%s: got %v; want path %q", c.Rule, err, want)
		}
	}
	for _, c := range some(t, "scope", doc.Scope) {
		s := event.ScopeOf(c.Tenant, c.RuntimeID, c.InvocationID)
		if hex.EncodeToString(s[:]) != c.Scope || s.Shard() != c.Shard {
			t.Errorf("%s: got %x, %s; want %s", c.Rule, s, s.Shard(), c.Scope)
		}
	}
}
