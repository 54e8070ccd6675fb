package api

import (
	"slices"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
)

// Append adds the JSON of a receipt to dst: the bytes that json.Marshal gives
// with sorted maps. Every write is answered with one, so it is not left to
// reflection.
func (r *Receipt) Append(dst []byte) []byte {
	o := object{b: append(dst, '{'), first: true}
	o.text("schemaVersion", r.SchemaVersion)
	o.text("eventId", r.EventID)
	o.text("eventType", r.EventType)
	o.text("attemptId", r.AttemptID)
	o.text("lifecycle", string(r.Lifecycle))
	o.name("revision")
	o.b = strconv.AppendInt(o.b, r.Revision, 10)
	o.optional("previous", r.Previous)
	o.text("ledger", r.Ledger)
	o.text("tenant", r.Tenant)
	o.open("subject")
	o.text("kind", string(r.Subject.Kind))
	o.text("id", r.Subject.ID)
	o.close()
	o.text("occurredAt", r.OccurredAt)
	o.text("capturedAt", r.CapturedAt)
	if r.ClockSkew {
		o.raw("clockSkew", "true")
	}
	o.optional("traceId", r.TraceID)
	o.open("action")
	o.text("name", r.Action.Name)
	o.text("effectKind", r.Action.EffectKind)
	o.text("effectMode", r.Action.EffectMode)
	o.text("phase", r.Action.Phase)
	o.text("status", r.Action.Status)
	o.close()
	o.texts("reasonCodes", r.ReasonCodes)
	o.members("commitments", r.Commitments)
	o.members("refs", r.Refs)
	if r.Statement != nil {
		o.raw("statement", string(r.Statement))
	}
	o.open("source")
	o.text("runtimeId", r.Source.RuntimeID)
	o.text("agentId", r.Source.AgentID)
	o.text("invocationId", r.Source.InvocationID)
	o.text("protocol", r.Source.Protocol)
	o.text("implementation", r.Source.Implementation)
	o.optional("eventId", r.Source.EventID)
	o.close()
	o.open("sourceAttestation")
	o.text("level", r.SourceAttestation.Level)
	o.text("status", r.SourceAttestation.Status)
	o.close()
	o.text("claimBoundary", r.ClaimBoundary)
	o.open("commitment")
	o.text("digest", r.Commitment.Digest)
	o.text("payloadType", r.Commitment.PayloadType)
	o.raw("signatures", string(r.Commitment.Signatures))
	o.close()
	o.number("leafIndex", r.LeafIndex)
	o.text("stage", r.Stage)
	if r.TreeSize != 0 {
		o.number("treeSize", r.TreeSize)
	}
	o.texts("inclusionProof", r.InclusionProof)
	o.optional("checkpoint", r.Checkpoint)
	if r.Witnesses != nil {
		o.open("witnesses")
		o.number("have", r.Witnesses.Have)
		o.number("need", r.Witnesses.Need)
		o.close()
	}
	if len(r.Openings) > 0 {
		o.name("openings")
		for i, x := range r.Openings {
			o.b = append(o.b, ",["[b2i(i == 0)], '{')
			o.first = true
			o.text("name", x.Name)
			o.text("encoding", x.Encoding)
			o.text("salt", x.Salt)
			o.text("digest", x.Digest)
			o.close()
		}
		o.b = append(o.b, ']')
	}
	return append(o.b, '}')
}

// answers are buffers for answers that have been written to the connection.
var answers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// object appends the members of a JSON object.
type object struct {
	b     []byte
	first bool
}

func (o *object) name(n string) {
	if !o.first {
		o.b = append(o.b, ',')
	}
	o.first = false
	o.b = append(append(append(o.b, '"'), n...), '"', ':') // our own names need no escapes
}

func (o *object) open(n string) {
	o.name(n)
	o.b, o.first = append(o.b, '{'), true
}

func (o *object) close() { o.b, o.first = append(o.b, '}'), false }

func (o *object) text(n, v string) {
	o.name(n)
	o.quote(v)
}

func (o *object) optional(n, v string) {
	if v != "" {
		o.text(n, v)
	}
}

func (o *object) raw(n, v string) {
	o.name(n)
	o.b = append(o.b, v...)
}

func (o *object) number(n string, v uint64) {
	o.name(n)
	o.b = strconv.AppendUint(o.b, v, 10)
}

func (o *object) texts(n string, vs []string) {
	if len(vs) == 0 {
		return
	}
	o.name(n)
	for i, v := range vs {
		o.b = append(o.b, ",["[b2i(i == 0)])
		o.quote(v)
	}
	o.b = append(o.b, ']')
}

func (o *object) members(n string, m map[string]string) {
	if len(m) == 0 {
		return
	}
	o.open(n)
	var few [event.MaxMapMembers]string
	names := few[:0]
	for k := range m {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		o.text(k, m[k]) // the names of an event's maps are letters, digits and _
	}
	o.close()
}

// quote appends a string of an event or of our own, which is valid UTF-8.
func (o *object) quote(s string) {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= 0x80 {
			o.b, _ = jsontext.AppendQuote(o.b, s)
			return
		}
	}
	o.b = append(append(append(o.b, '"'), s...), '"')
}
