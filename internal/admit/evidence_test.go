package admit_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
)

// npmRegistry is a registry of sigstore 2.0.0 whose attestations do not answer for a
// while; negative is for ever.
func npmRegistry(t *testing.T, silent int) (http.RoundTripper, *int) {
	t.Helper()
	tarball := read(t, evidence("sigstore-2.0.0.tgz"))
	bundle := read(t, evidence("sigstore-2.0.0.provenance.json"))
	answer, err := json.Marshal(map[string]any{"attestations": []any{map[string]any{"predicateType": "https://slsa.dev/provenance/v1", "bundle": json.RawMessage(bundle)}}})
	if err != nil {
		t.Fatal(err)
	}
	asked := new(int)
	tr, _ := served(t, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch {
		case strings.HasSuffix(q.URL.Path, "/sigstore/2.0.0"):
			_, _ = io.WriteString(w, `{"name":"sigstore","version":"2.0.0","dist":{"tarball":"https://example.com/sigstore-2.0.0.tgz","attestations":{"url":"x"}}}`)
		case strings.HasSuffix(q.URL.Path, ".tgz"):
			w.Header().Set("Content-Length", strconv.Itoa(len(tarball)))
			_, _ = w.Write(tarball)
		default:
			if *asked++; silent < 0 || *asked <= silent {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write(answer)
		}
	}))
	return tr, asked
}

// TestADM21_ADM31_EvidenceThatDoesNotAnswer is asked for within bounds, at the one place
// where it is; a quarantine comes first, and both decisions are kept.
func TestADM21_ADM31_EvidenceThatDoesNotAnswer(t *testing.T) {
	r := newRoom(t)
	run := func(silent int) (*admit.Result, int) {
		tr, asked := npmRegistry(t, silent)
		m := material(t, publicGood)
		m.Transport, m.NPMRegistry, m.Pause = tr, "https://example.com", func(context.Context, time.Duration) error { return nil }
		req := sigstoreJS(t, "standard")
		req.Artifact, req.Evidence = "", nil
		return r.run(shipped(t, "standard"), m, "", req), *asked
	}
	silence := []admission.Code{admission.EvidenceGap, admission.EvidenceUnavailable}

	res, asked := run(4) // the four tries of one fetch
	want(t, res, admission.Admit, allGood...)
	if asked != 5 || len(res.Earlier) != 1 || res.Earlier[0].Decision != admission.Quarantine || !slices.Equal(res.Earlier[0].ReasonCodes, silence) {
		t.Errorf("asked %d times, earlier %+v", asked, res.Earlier)
	}
	receipt, _, err := admission.Open(r.body(res.Receipt), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b := parsed(t, r.body(receipt.Records.EvidenceBundle), admission.ParseEvidenceBundle); len(b.Used) != 1 || len(r.body(b.Used[0].Evidence)) == 0 {
		t.Errorf("evidence %+v", b)
	}
	var marks []string
	for _, e := range r.events(res.TraceID) {
		if e.Lifecycle == "outcome" && (e.Action.Name == "admission" || e.Action.Name == "admission.dependency") {
			marks = append(marks, e.Action.Name+" "+e.Action.Status)
		}
	}
	if !slices.Equal(marks, []string{"admission.dependency failed", "admission failed", "admission.dependency succeeded", "admission succeeded"}) {
		t.Errorf("marks %q", marks)
	}

	// for ever: the class allows three more rounds
	res, asked = run(-1)
	want(t, res, admission.Quarantine, silence...)
	if asked != 16 || len(res.Earlier) != 3 || res.Contract != nil {
		t.Errorf("asked %d times, earlier %+v", asked, res.Earlier)
	}
}
