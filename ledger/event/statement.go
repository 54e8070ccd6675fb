package event

import (
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ReadBack is what an authoritative source showed when an outcome was checked:
// the statement {"readback":{…}} of a reconciliation. The value itself is
// private; its tag and commitment are in the event.
type ReadBack struct {
	// Source names the authoritative source, as the caller gave it.
	Source string `json:"source"`
	// Observed is present, absent or unreachable.
	Observed string `json:"observed"`
	// Count is how many times the effect was found, when present; 1 if absent.
	Count int64 `json:"count,omitzero"`
}

// What a read-back can observe.
const (
	ObservedPresent     = "present"
	ObservedAbsent      = "absent"
	ObservedUnreachable = "unreachable"
)

// Gap is the statement {"gap":{…}} of a ledger notice: stream sequences From to
// To were accepted and are not in the log (LOG-13).
type Gap struct {
	From  int64 `json:"from"`
	To    int64 `json:"to"`
	Count int64 `json:"count"`
}

// KeyChange is the statement {"key":{…}} of an attempt of subject kind key: what
// a ledger is about to change about one of its event keys.
type KeyChange struct {
	// Change is registered, retired, revoked or disabled.
	Change string `json:"change"`
	KeyID  string `json:"keyId"`
	// PublicKey is standard base64 of the 32 bytes, if the key is registered.
	PublicKey string `json:"publicKey,omitempty"`
	// Index is the first leaf index to which the change applies.
	Index int64 `json:"index"`
}

// The changes of a key.
const (
	KeyRegistered = "registered"
	KeyRetired    = "retired"
	KeyRevoked    = "revoked"
	KeyDisabled   = "disabled"
)

// statement is the union of all statements; exactly the member that fits the
// subject kind and lifecycle is present.
type statement struct {
	ReadBack *ReadBack  `json:"readback,omitempty"`
	Review   *Judgement `json:"review,omitempty"`
	Gap      *Gap       `json:"gap,omitempty"`
	Key      *KeyChange `json:"key,omitempty"`

	Erasure   *Erasure         `json:"erasure,omitempty"`
	Hold      *Hold            `json:"hold,omitempty"`
	Retention *RetentionChange `json:"retention,omitempty"`

	Contract *ContractTerms `json:"contract,omitempty"`
}

// KeyChange returns the key change of an attempt that was validated.
func (e *Event) KeyChange() (KeyChange, bool) {
	s, err := e.parseStatement()
	if err != nil || s.Key == nil {
		return KeyChange{}, false
	}
	return *s.Key, true
}

func (s statement) value() jsontext.Value {
	b, err := json.Marshal(s)
	if err != nil {
		return nil // strings were checked before; an invalid one fails Validate
	}
	v := jsontext.Value(b)
	if err := v.Canonicalize(); err != nil {
		return nil
	}
	return v
}

// Value returns the canonical statement.
func (r ReadBack) Value() jsontext.Value { return statement{ReadBack: &r}.value() }

// Value returns the canonical statement.
func (g Gap) Value() jsontext.Value { return statement{Gap: &g}.value() }

// Value returns the canonical statement.
func (k KeyChange) Value() jsontext.Value { return statement{Key: &k}.value() }

// ReadBack returns the read-back of a reconciliation that was validated.
func (e *Event) ReadBack() (ReadBack, bool) {
	s, err := e.parseStatement()
	if err != nil || s.ReadBack == nil {
		return ReadBack{}, false
	}
	return *s.ReadBack, true
}

func (e *Event) parseStatement() (s statement, err error) {
	if len(e.Statement) == 0 {
		return s, nil
	}
	err = unmarshal(e.Statement, &s)
	return s, err
}

func (e *Event) validateStatement() error {
	const path = "/statement"
	wantReadBack := e.Lifecycle == Reconciliation
	wantReview := e.Lifecycle == Review
	wantNotice := e.Lifecycle == Attempt && e.Subject.Kind == Ledger
	mayKey := e.Lifecycle == Attempt && e.Subject.Kind == Key // the ledger's own; others have none
	mayContract := e.Lifecycle == Attempt && e.Subject.Kind == Contract
	if len(e.Statement) == 0 {
		if wantReadBack || wantReview || wantNotice {
			return bad(path, "missing: a %s of kind %s carries one", e.Lifecycle, e.Subject.Kind)
		}
		return nil
	}
	if err := statementProfile.CheckCanonical(e.Statement); err != nil {
		return bad(path, "%v", err)
	}
	s, err := e.parseStatement()
	if err != nil {
		return prefix(path, err)
	}
	notices := 0
	if wantNotice {
		notices = 1 // exactly one of them
	}
	if !(wantReadBack || wantReview || wantNotice || mayKey || mayContract) || (s.ReadBack != nil) != wantReadBack || (s.Review != nil) != wantReview ||
		s.notices() != notices || (s.Key != nil) != mayKey || (s.Contract != nil) != mayContract {
		return bad(path, "does not fit a %s of kind %s", e.Lifecycle, e.Subject.Kind)
	}
	if r := s.ReadBack; r != nil {
		if err := CheckID(path+"/readback/source", r.Source); err != nil {
			return err
		}
		if r.Observed != ObservedPresent && r.Observed != ObservedAbsent && r.Observed != ObservedUnreachable {
			return bad(path+"/readback/observed", "%q is not present, absent or unreachable", clip(r.Observed))
		}
		if r.Count < 0 || r.Count > canonMax || (r.Count > 0 && r.Observed != ObservedPresent) {
			return bad(path+"/readback/count", "%d: a count is at least 1 and comes with present", r.Count)
		}
	}
	if r := s.Review; r != nil {
		if err := r.validate(path+"/review", e); err != nil {
			return err
		}
	}
	if t := s.Contract; t != nil {
		if err := t.validate(path + "/contract"); err != nil {
			return err
		}
	}
	if g := s.Gap; g != nil && (g.From < 1 || g.To < g.From || g.Count < 1 || g.Count > g.To-g.From+1) {
		return bad(path+"/gap", "from %d to %d with count %d is no range of sequences with that many missing", g.From, g.To, g.Count)
	}
	if k := s.Key; k != nil {
		if err := k.validate(path + "/key"); err != nil {
			return err
		}
	}
	if err := s.validateNotice(path); err != nil {
		return err
	}
	if got := s.value(); string(got) != string(e.Statement) {
		return prefix(path, notCanonical(got, e.Statement))
	}
	return nil
}

const canonMax = 1<<53 - 1

func (k *KeyChange) validate(path string) error {
	switch k.Change {
	case KeyRegistered, KeyRetired, KeyRevoked, KeyDisabled:
	default:
		return bad(path+"/change", "%q is not registered, retired, revoked or disabled", clip(k.Change))
	}
	if !validKeyID(k.KeyID) {
		return bad(path+"/keyId", "%q is no key id", clip(k.KeyID))
	}
	if k.Index < 0 || k.Index > canonMax {
		return bad(path+"/index", "%d is no leaf index", k.Index)
	}
	if (k.Change == KeyRegistered) != (k.PublicKey != "") {
		return bad(path+"/publicKey", "it is there if the key is registered, and only then")
	}
	if k.PublicKey == "" {
		return nil
	}
	pub, err := b64.DecodeString(k.PublicKey)
	if err != nil || b64.EncodeToString(pub) != k.PublicKey || !IsKeyID(k.KeyID, pub) {
		return bad(path+"/publicKey", "it is not standard base64 of the key that keyId names")
	}
	return nil
}
