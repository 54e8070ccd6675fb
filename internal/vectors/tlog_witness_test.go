package vectors

import (
	"errors"
	"fmt"
	"testing"

	"counterfoil/ledger/trust"
	"counterfoil/witness/rule"
)

// witnessDoc is tlog/add_checkpoint.json.
type witnessDoc struct {
	Description string `json:"description"`
	Parts       parts  `json:"parts"`
	Witness     struct {
		Name string `json:"name"`
		Seed string `json:"seed"`
		VKey string `json:"vkey"`
		Time int64  `json:"time,string"`
	} `json:"witness"`
	Logs []struct {
		Origin string `json:"origin"`
		VKey   pieces `json:"vkey"`
	} `json:"logs"`
	States    map[string]witnessState `json:"states"`
	Cases     []witnessCase           `json:"cases"`
	Sequences []struct {
		caseRule
		QPD   uint64 `json:"requestsPerDay"`
		Steps []struct {
			After int64 `json:"after"`
			witnessAnswer
			Retry string `json:"retryAfter"`
		} `json:"steps"`
	} `json:"sequences"`
	AnswerKeys []pieces `json:"answerKeys"`
	Checkpoint pieces   `json:"checkpoint"`
	Answers    []any    `json:"answers"` // of witness/client
}

type witnessState struct {
	Origin  string `json:"origin"`
	Size    uint64 `json:"size,string"`
	Root    string `json:"root"`
	Request pieces `json:"request"` // none if nothing was cosigned
}

// witnessAnswer is a request's body and what the witness says to it.
type witnessAnswer struct {
	Body        pieces    `json:"body"`
	Status      int       `json:"status"`
	ContentType string    `json:"contentType"`
	Answer      string    `json:"answer"`
	Line        string    `json:"line"`
	Evidence    rule.Kind `json:"evidence"`
}

type witnessCase struct {
	caseRule
	State string `json:"state"`
	witnessAnswer
}

func loadWitness(t *testing.T) *witnessDoc {
	t.Helper()
	doc := new(witnessDoc)
	load(t, "tlog/add_checkpoint.json", doc)
	some(t, "cases", doc.Cases)
	some(t, "sequences", doc.Sequences)
	return doc
}

func TestLOG08_LOG10_WitnessRuleVectors(t *testing.T) {
	doc := loadWitness(t)
	keys := map[string][]trust.VerifierKey{}
	for _, l := range doc.Logs {
		keys[l.Origin] = []trust.VerifierKey{doc.Parts.key(t, l.VKey)}
	}
	for _, c := range doc.Cases {
		b := doc.Parts.join(t, c.Body)
		r, err := rule.ParseRequest(b)
		if err != nil {
			if want := c.Status == 400 || c.Status == 413; !want || !errors.Is(err, rule.ErrSyntax) {
				t.Errorf("%s: %v; want status %d", c, err, c.Status)
			}
			continue
		}
		if string(r.Append(nil)) != string(b) {
			t.Errorf("%s: not written as it was read", c)
		}
		state := doc.States[c.State]
		got := rule.Decide(keys[r.Checkpoint.Origin], rule.State{Size: state.Size, Root: hash32(t, state.Root)}, r)
		if got == nil {
			got = &rule.Refusal{Status: 200}
		}
		if got.Status != c.Status || got.Evidence != c.Evidence || got.Status == 409 && fmt.Sprintf("%d\n", got.Size) != c.Answer {
			t.Errorf("%s: %d, size %d, evidence %q (%s); want %d, %q, %q", c, got.Status, got.Size, got.Evidence, got.Detail, c.Status, c.Answer, c.Evidence)
		}
	}
}

func TestLOG09_EquivocationVectors(t *testing.T) {
	type document struct {
		caseRule
		Document   pieces    `json:"document"`
		Kind       rule.Kind `json:"kind"`
		ID         string    `json:"id"`
		Conclusive bool      `json:"conclusive"`
	}
	var doc struct {
		Description string     `json:"description"`
		Key         string     `json:"key"`
		Shown       []document `json:"shown"`
		NotShown    []document `json:"notShown"`
		SameID      []pieces   `json:"sameId"`
		Reject      []struct {
			caseRule
			Document pieces `json:"document"`
		} `json:"reject"`
	}
	load(t, "tlog/equivocation.json", &doc)
	key, err := trust.ParseVerifierKey(doc.Key)
	if err != nil {
		t.Fatal(err)
	}
	keys := []trust.VerifierKey{key}
	read := func(c document) *rule.Evidence {
		t.Helper()
		b := parts(nil).join(t, c.Document)
		e, err := rule.ParseEvidence(b)
		if err != nil {
			t.Errorf("%s: %v", c, err)
			return nil
		}
		if again, err := e.Marshal(); err != nil || string(again) != string(b) {
			t.Errorf("%s: not written as it was read: %v", c, err)
		}
		if e.Kind != c.Kind || e.ID() != c.ID {
			t.Errorf("%s: kind %q, id %s; want %q, %s", c, e.Kind, e.ID(), c.Kind, c.ID)
		}
		return e
	}
	for _, c := range some(t, "shown", doc.Shown) {
		e := read(c)
		if e == nil {
			continue
		}
		if err := e.Verify(keys); err != nil || e.Kind.Conclusive() != c.Conclusive {
			t.Errorf("%s: %v; conclusive %v", c, err, e.Kind.Conclusive())
		}
		if e.Verify(nil) == nil {
			t.Errorf("%s: shown without a key", c)
		}
	}
	for _, c := range some(t, "notShown", doc.NotShown) {
		if e := read(c); e != nil && e.Verify(keys) == nil {
			t.Errorf("%s: shown", c)
		}
	}
	for i, p := range some(t, "sameId", doc.SameID) {
		if e, err := rule.ParseEvidence(parts(nil).join(t, p)); err != nil || e.ID() != doc.Shown[0].ID {
			t.Errorf("sameId %d: %v", i+1, err)
		}
	}
	for _, c := range some(t, "reject", doc.Reject) {
		if _, err := rule.ParseEvidence(parts(nil).join(t, c.Document)); !errors.Is(err, rule.ErrEvidence) {
			t.Errorf("%s: %v", c, err)
		}
	}
}
