package intake

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
)

// Begin asks for a new attempt (EVI-06). Private values are JSON in canonical
// form after ParseBegin, or raw bytes.
type Begin struct {
	Source         BeginSource    `json:"source"`
	OccurredAt     string         `json:"occurredAt"`
	TraceID        string         `json:"traceId,omitempty"`
	Action         event.Action   `json:"action"`
	Subject        event.Subject  `json:"subject,omitzero"` // default: tool_action and the action's name
	PrivateInput   jsontext.Value `json:"privateInput,omitzero"`
	PrivateRaw     string         `json:"privateInputRaw,omitempty"` // standard base64
	ExpectedEffect jsontext.Value `json:"expectedEffect,omitzero"`
	KeepBody       bool           `json:"keepBody,omitzero"`
	// Contract is for subjects of kind contract only.
	Contract *event.ContractTerms `json:"contract,omitempty"`

	statement jsontext.Value // notices of the ledger itself only
	canonical []byte
	raw       []byte
}

// BeginSource is the source as the caller names it. Its assurance is not the
// caller's to state.
type BeginSource struct {
	RuntimeID      string `json:"runtimeId"`
	AgentID        string `json:"agentId"`
	InvocationID   string `json:"invocationId"`
	Protocol       string `json:"protocol"`
	Implementation string `json:"implementation"`
}

// ParseBegin reads and checks the body of a begin.
func ParseBegin(body []byte) (*Begin, error) {
	b := new(Begin)
	if err := decode(body, b); err != nil {
		return nil, err
	}
	return b, b.prepare()
}

// prepare brings private values into canonical form and checks every member.
func (b *Begin) prepare() error {
	if b.Subject == (event.Subject{}) {
		b.Subject = event.Subject{Kind: event.ToolAction, ID: b.Action.Name}
	}
	for _, f := range []struct{ path, value string }{
		{"/source/runtimeId", b.Source.RuntimeID}, {"/source/agentId", b.Source.AgentID},
		{"/source/invocationId", b.Source.InvocationID}, {"/source/protocol", b.Source.Protocol},
		{"/source/implementation", b.Source.Implementation},
		{"/action/name", b.Action.Name}, {"/action/effectKind", b.Action.EffectKind}, {"/action/effectMode", b.Action.EffectMode},
		{"/subject/id", b.Subject.ID},
	} {
		if err := checkID(f.path, f.value); err != nil {
			return err
		}
	}
	if b.TraceID != "" {
		if err := checkID("/traceId", b.TraceID); err != nil {
			return err
		}
	}
	if !event.KnownKind(b.Subject.Kind) {
		return refuse("/subject/kind", "the subject kinds are in docs/spec/event.md", "unknown kind %q", b.Subject.Kind)
	}
	if b.Subject.Kind == event.Ledger && b.statement == nil {
		return refuse("/subject/kind", "use the kind that the action is about", "only the ledger speaks about itself")
	}
	if err := b.checkContract(); err != nil {
		return err
	}
	if err := checkTime(b.OccurredAt); err != nil {
		return err
	}
	var err error
	if b.raw, err = privateValue("/privateInput", &b.PrivateInput, b.PrivateRaw); err != nil {
		return err
	}
	if _, err = privateValue("/expectedEffect", &b.ExpectedEffect, ""); err != nil {
		return err
	}
	b.canonical, err = canonicalRequest(b)
	return err
}

func (b *Begin) checkContract() error {
	if b.Contract == nil {
		return nil
	}
	if b.Subject.Kind != event.Contract {
		return refuse("/contract", "leave it out, or begin an attempt of kind contract", "an attempt of kind %s sets no contract", b.Subject.Kind)
	}
	var ee *event.Error
	if errors.As(b.Contract.Validate(), &ee) {
		return refuse("/contract"+ee.Path, "the members are in docs/spec/review.md", "%s", ee.Detail)
	}
	b.statement = b.Contract.Value()
	return nil
}
