package trust

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
)

// Schema is the schemaVersion of a trust file.
const Schema = "counterfoil.trust.v1"

// Bounds of a trust file. 64 witnesses leave room for the log's own signatures
// among the MaxNoteSignatures lines of a checkpoint.
const (
	MaxFileBytes = 1 << 20
	MaxWitnesses = 64
)

// ErrFile is what every refusal of [Parse] wraps.
var ErrFile = errors.New("malformed trust file")

// File is the trust file: what a verifier needs from outside of what it
// verifies. As canonical JSON:
//
//	{"eventKeys":[{"fromIndex":0,"keyId":"ed25519:…","publicKey":"<base64>"}],
//	 "log":{"origin":"…","vkey":"…"},"quorum":1,
//	 "schemaVersion":"counterfoil.trust.v1","witnesses":[{"vkey":"…"}]}
//
// with the optional members toIndex and revokedFromIndex in an event key, and
// without quorum and witnesses if there are none.
type File struct {
	// Log is the log's key; its name is the log's origin.
	Log VerifierKey
	// EventKeys are the keys that sign events.
	EventKeys EventKeys
	// Witnesses are the keys whose cosignatures count.
	Witnesses []VerifierKey
	// Quorum is how many of the witnesses must have cosigned; 0 asks for none.
	Quorum int
}

// Origin is the log's origin.
func (f *File) Origin() string { return f.Log.Name }

// Validate checks the file as a whole: key types, at least one event key, no
// public key and no name twice among log and witnesses (one key with two names
// would count twice, for its cosignature does not say which name it is), and a
// quorum that can be reached.
func (f *File) Validate() error {
	if !f.Log.Logs() {
		return fmt.Errorf("log key %s is of type %s, want 0x01 or 0x06", clip(f.Log.Name), f.Log.Type)
	}
	if f.EventKeys.Len() == 0 {
		return errors.New("no event key: without one no event can be judged")
	}
	if len(f.Witnesses) > MaxWitnesses {
		return fmt.Errorf("%d witnesses, limit %d", len(f.Witnesses), MaxWitnesses)
	}
	for i, w := range f.Witnesses {
		if !w.Cosigns() {
			return fmt.Errorf("witness key %s is of type %s, want 0x04 or 0x06", clip(w.Name), w.Type)
		}
		if w.SameKey(f.Log) || w.Name == f.Log.Name {
			return fmt.Errorf("witness %s is the log itself", clip(w.Name))
		}
		for _, other := range f.Witnesses[:i] {
			if w.SameKey(other) {
				return fmt.Errorf("witnesses %s and %s have the same public key", clip(other.Name), clip(w.Name))
			}
			if w.Name == other.Name {
				return fmt.Errorf("witness %s is listed twice", clip(w.Name))
			}
		}
	}
	if f.Quorum < 0 || f.Quorum > len(f.Witnesses) {
		return fmt.Errorf("quorum %d of %d witnesses", f.Quorum, len(f.Witnesses))
	}
	return nil
}

// fileJSON has pointers, so that a missing member is not taken for a zero one.
type fileJSON struct {
	EventKeys     *[]eventKeyJSON `json:"eventKeys"`
	Log           *logJSON        `json:"log"`
	Quorum        *uint64         `json:"quorum"`
	SchemaVersion *string         `json:"schemaVersion"`
	Witnesses     *[]witnessJSON  `json:"witnesses"`
}

type logJSON struct {
	Origin *string `json:"origin"`
	VKey   *string `json:"vkey"`
}

type eventKeyJSON struct {
	FromIndex        *uint64 `json:"fromIndex"`
	KeyID            *string `json:"keyId"`
	PublicKey        *string `json:"publicKey"`
	RevokedFromIndex *uint64 `json:"revokedFromIndex"`
	ToIndex          *uint64 `json:"toIndex"`
}

type witnessJSON struct {
	VKey *string `json:"vkey"`
}

// fileProfile is what people may write: white space and any order, but no
// duplicate names, no floats and no integers beyond 2^53−1.
var fileProfile = canon.Profile{MaxBytes: MaxFileBytes, MaxDepth: 8}

// Parse reads a trust file of at most MaxFileBytes. Members and values are
// strict (none unknown, missing, null or twice), white space and order are not.
// Errors wrap ErrFile and name the member.
func Parse(b []byte) (*File, error) {
	if err := fileProfile.Check(b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	if path, ok := findNull(b); ok {
		return nil, fmt.Errorf("%w: %s: null is no value; leave the member out", ErrFile, path)
	}
	var j fileJSON
	if err := json.Unmarshal(b, &j, json.RejectUnknownMembers(true)); err != nil {
		var se *json.SemanticError
		if errors.As(err, &se) && se.Err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFile, se.JSONPointer, se.Err)
		}
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	f, err := j.file()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFile, err)
	}
	return f, nil
}

func (j *fileJSON) file() (*File, error) {
	switch {
	case j.SchemaVersion == nil:
		return nil, errors.New("/schemaVersion: missing")
	case *j.SchemaVersion != Schema:
		return nil, fmt.Errorf("/schemaVersion: %q, want %q", clip(*j.SchemaVersion), Schema)
	case j.Log == nil || j.Log.VKey == nil || j.Log.Origin == nil:
		return nil, errors.New("/log: vkey or origin missing")
	case j.EventKeys == nil:
		return nil, errors.New("/eventKeys: missing")
	}
	var f File
	var err error
	if f.Log, err = ParseVerifierKey(*j.Log.VKey); err != nil {
		return nil, fmt.Errorf("/log/vkey: %w", err)
	}
	if *j.Log.Origin != f.Log.Name {
		return nil, fmt.Errorf("/log/origin: %q, but the key is named %q", clip(*j.Log.Origin), clip(f.Log.Name))
	}
	if n := len(*j.EventKeys); n > MaxEventKeys {
		return nil, fmt.Errorf("/eventKeys: %d keys, limit %d", n, MaxEventKeys)
	}
	keys := make([]EventKey, len(*j.EventKeys))
	for i, k := range *j.EventKeys {
		if k.KeyID == nil || k.PublicKey == nil || k.FromIndex == nil {
			return nil, fmt.Errorf("/eventKeys/%d: keyId, publicKey or fromIndex missing", i)
		}
		pub, err := decode64(*k.PublicKey)
		if err != nil {
			return nil, fmt.Errorf("/eventKeys/%d/publicKey: %w", i, err)
		}
		keys[i] = EventKey{KeyID: *k.KeyID, PublicKey: pub, FromIndex: *k.FromIndex, ToIndex: k.ToIndex, RevokedFromIndex: k.RevokedFromIndex}
	}
	if f.EventKeys, err = NewEventKeys(keys); err != nil {
		return nil, fmt.Errorf("/eventKeys: %w", err)
	}
	if j.Witnesses != nil {
		if n := len(*j.Witnesses); n > MaxWitnesses {
			return nil, fmt.Errorf("/witnesses: %d witnesses, limit %d", n, MaxWitnesses)
		}
		for i, w := range *j.Witnesses {
			if w.VKey == nil {
				return nil, fmt.Errorf("/witnesses/%d/vkey: missing", i)
			}
			k, err := ParseVerifierKey(*w.VKey)
			if err != nil {
				return nil, fmt.Errorf("/witnesses/%d/vkey: %w", i, err)
			}
			f.Witnesses = append(f.Witnesses, k)
		}
	}
	if j.Quorum != nil {
		if *j.Quorum > MaxWitnesses {
			return nil, fmt.Errorf("/quorum: %d, limit %d", *j.Quorum, MaxWitnesses)
		}
		f.Quorum = int(*j.Quorum)
	}
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return &f, nil
}

// findNull returns the path of the first null of a valid document.
func findNull(b []byte) (path string, found bool) {
	dec := jsontext.NewDecoder(bytes.NewReader(b))
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return "", false
		}
		if tok.Kind() == 'n' {
			return string(dec.StackPointer()), true
		}
	}
}

// Append adds the canonical JSON of the file to dst: event keys sorted by key
// id, witnesses by verifier key. It does not validate.
func (f *File) Append(dst []byte) []byte {
	dst = append(dst, `{"eventKeys":[`...)
	for i, k := range f.EventKeys.list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendUint(append(dst, `{"fromIndex":`...), k.FromIndex, 10)
		dst = quote(append(dst, `,"keyId":`...), k.KeyID)
		dst = quote(append(dst, `,"publicKey":`...), b64.EncodeToString(k.PublicKey))
		if k.RevokedFromIndex != nil {
			dst = strconv.AppendUint(append(dst, `,"revokedFromIndex":`...), *k.RevokedFromIndex, 10)
		}
		if k.ToIndex != nil {
			dst = strconv.AppendUint(append(dst, `,"toIndex":`...), *k.ToIndex, 10)
		}
		dst = append(dst, '}')
	}
	dst = quote(append(dst, `],"log":{"origin":`...), f.Log.Name)
	dst = quote(append(dst, `,"vkey":`...), f.Log.String())
	dst = append(dst, '}')
	if f.Quorum != 0 {
		dst = strconv.AppendInt(append(dst, `,"quorum":`...), int64(f.Quorum), 10)
	}
	dst = quote(append(dst, `,"schemaVersion":`...), Schema)
	if len(f.Witnesses) > 0 {
		vkeys := make([]string, len(f.Witnesses))
		for i, w := range f.Witnesses {
			vkeys[i] = w.String()
		}
		slices.Sort(vkeys)
		dst = append(dst, `,"witnesses":[`...)
		for i, v := range vkeys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(quote(append(dst, `{"vkey":`...), v), '}')
		}
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

// quote appends an RFC 8785 string; s was read from JSON or a note and is valid
// UTF-8.
func quote(dst []byte, s string) []byte {
	out, _ := jsontext.AppendQuote(dst, s)
	return out
}
