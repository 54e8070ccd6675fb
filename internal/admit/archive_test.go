package admit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"counterfoil/internal/admit"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
)

// trouble is a ledger whose archive refuses for a while.
type trouble struct {
	*client.Client
	err   error
	times int // how often; negative for ever
	asked int
}

func (l *trouble) SealReceipt(ctx context.Context, id string, req *client.ReceiptRequest) (*client.Answer[client.AdmissionReceipt], error) {
	l.asked++
	if l.times != 0 {
		l.times--
		return nil, l.err
	}
	return l.Client.SealReceipt(ctx, id, req)
}

// refusal is what the ledger answers if its archive fails.
func refusal(code admission.Code) error {
	return &client.Error{Status: http.StatusServiceUnavailable, Code: "unavailable", Reason: string(code), Message: "the archive failed"}
}

func light(t *testing.T) admit.Request {
	return admit.Request{Entry: entry(t, "io.github.domdomegg/airtable-mcp-server", "1.7.2", "https://github.com/domdomegg/airtable-mcp-server", "airtable-mcp-server"),
		Class: "light", Artifact: evidence("airtable-mcp-server-1.7.2.tgz")}
}

// TestADM14_ADM31_ArchiveFailuresHaveTheirOwnCodes: without a kept receipt there is no
// admit and no contract, whatever the evidence says.
func TestADM14_ADM31_ArchiveFailuresHaveTheirOwnCodes(t *testing.T) {
	r := newRoom(t)
	for _, c := range []struct {
		err   error
		code  admission.Code
		asked int // 3 tries a round, and 3 more rounds where it may pass
	}{
		{refusal(admission.ArchiveFull), admission.ArchiveFull, 12},
		{refusal(admission.ArchivePermissionDenied), admission.ArchivePermissionDenied, 12},
		{refusal(admission.ArchiveRetentionDenied), admission.ArchiveRetentionDenied, 1},
		{&client.Unreachable{Server: "http://127.0.0.1:1", Err: errors.New("refused")}, admission.ArchiveUnreachable, 12},
	} {
		l := &trouble{Client: r.client, err: c.err, times: -1}
		r.ledger = l
		res := r.admit("light", "", light(t))
		want(t, res, admission.Quarantine, admission.ArchiveWriteFailure, c.code)
		if res.Receipt != "" || res.SpanningSetDigest != "" || res.Contract != nil || res.Answers.ArchivedTogether != "no" || l.asked != c.asked {
			t.Errorf("%s: asked %d times, %+v", c.code, l.asked, res)
		}
		if i, _ := res.ReasonCodes[1].Info(); i.Route != admission.RoutePlatform {
			t.Errorf("%s wakes %s", c.code, i.Route)
		}
		// decisions of each round are kept, each correcting the one before
		var said []string
		for _, e := range r.events(res.TraceID) {
			if e.AttemptID == res.AttemptID && e.Lifecycle == "outcome" {
				said = append(said, fmt.Sprint(e.Action.Status, " ", e.ReasonCodes[1]))
			}
		}
		if rounds := (c.asked + 2) / 3; len(said) != rounds || len(res.Earlier) != rounds-1 || said[0] != "failed "+string(c.code) {
			t.Errorf("%s: decisions %q", c.code, said)
		}
	}
}

// TestADM31_QuarantineThenAdmit: the archive fails three times and then takes it.
func TestADM31_QuarantineThenAdmit(t *testing.T) {
	r := newRoom(t)
	l := &trouble{Client: r.client, err: refusal(admission.ArchiveFull), times: 3}
	r.ledger = l
	res := r.admit("light", "", light(t))
	want(t, res, admission.Admit, allGood...)
	if l.asked != 4 || len(res.Earlier) != 1 || res.Earlier[0].Decision != admission.Quarantine ||
		!slices.Equal(res.Earlier[0].ReasonCodes, []admission.Code{admission.ArchiveWriteFailure, admission.ArchiveFull}) {
		t.Errorf("asked %d, earlier %+v", l.asked, res.Earlier)
	}
	if want := []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 2 * time.Second}; !slices.Equal(r.pauses, want) {
		t.Errorf("pauses %v", r.pauses)
	}
	a, err := r.client.Attempt(t.Context(), res.AttemptID)
	if err != nil {
		t.Fatal(err)
	}
	if !a.Value.Corrected || a.Value.State != "succeeded" || len(a.Value.Receipts) != 3 || a.Value.Receipts[1].EventID != res.Earlier[0].EventID {
		t.Errorf("attempt %+v", a.Value)
	}
}

// TestADM21_ADM31_OneAnswerTakesOneWrite: an archive that answers well is written to
// once, and a short failure is none.
func TestADM21_ADM31_OneAnswerTakesOneWrite(t *testing.T) {
	r := newRoom(t)
	for fails, asked := range map[int]int{0: 1, 2: 3} {
		l := &trouble{Client: r.client, err: refusal(admission.ArchiveUnreachable), times: fails}
		r.ledger = l
		res := r.admit("light", "", light(t))
		want(t, res, admission.Admit, allGood...)
		if l.asked != asked || len(res.Earlier) != 0 {
			t.Errorf("%d failures: asked %d times, earlier %v", fails, l.asked, res.Earlier)
		}
	}
}
