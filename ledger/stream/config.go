package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Metadata of the stream: whose it is.
const (
	metaOrigin      = "counterfoil.origin"
	metaTenant      = "counterfoil.tenant"
	metaFingerprint = "counterfoil.tenant-key"
	metaOfServer    = "_nats." // NATS keeps its own members here
)

// consumerLimit is how long any consumer of the stream may be idle.
const consumerLimit = 10 * time.Minute

// wanted is the configuration that the ledger relies on, in the spelling of the
// JetStream API. Whatever could take a message away from the stream, change one
// or leave out a sequence is off.
//
// max_msg_size counts headers and body: with MaxBody no body can be larger,
// whoever publishes it; our own publishes keep room for their headers.
func (s *Stream) wanted() map[string]any {
	return map[string]any{
		"name":                 s.cfg.Name,
		"subjects":             []any{Subjects},
		"retention":            "limits",
		"storage":              "file",
		"discard":              "new",
		"max_consumers":        -1.0,
		"max_msgs":             -1.0,
		"max_bytes":            -1.0,
		"max_age":              0.0,
		"max_msgs_per_subject": -1.0,
		"max_msg_size":         float64(MaxBody),
		"deny_delete":          true,
		"deny_purge":           true,
		"allow_direct":         true,
		"metadata":             s.ownMeta(),
	}
}

// ownMeta says whose a stream is.
func (s *Stream) ownMeta() map[string]any {
	return map[string]any{
		metaOrigin:      s.cfg.Origin,
		metaTenant:      s.cfg.Tenant,
		metaFingerprint: s.cfg.Fingerprint,
	}
}

// free are settings that do not touch what we rely on. Any other setting that
// is neither here nor in wanted must be absent or zero: a stream of a newer
// NATS with a feature that we do not know is refused, not trusted.
var free = []string{
	"description", "num_replicas", "placement", "compression", "consumer_limits", "duplicate_window",
}

// differences lists how a stream's configuration differs from the wanted one,
// sorted.
func differences(want, got map[string]any) []string {
	var out []string
	add := func(name string, got, want any) {
		out = append(out, fmt.Sprintf("%s is %s, expected %s", name, text(got), text(want)))
	}
	for name, w := range want {
		if name == "metadata" {
			meta, _ := got[name].(map[string]any)
			for k, v := range w.(map[string]any) {
				if meta[k] != v {
					add("metadata "+k, meta[k], v)
				}
			}
			continue
		}
		if !reflect.DeepEqual(got[name], w) {
			add(name, got[name], w)
		}
	}
	for name, g := range got {
		if _, ok := want[name]; ok || slices.Contains(free, name) || isZero(g) {
			continue
		}
		if name == "first_seq" && g == 1.0 || name == "persist_mode" && g == "default" {
			continue
		}
		add(name, g, nil)
	}
	slices.Sort(out)
	return out
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, m := range v {
			if !isZero(m) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

func text(v any) string {
	if v == nil {
		return "absent"
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // subjects have ">"
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// ConfigError: the stream is there and is not the one that the ledger needs.
type ConfigError struct {
	Stream      string
	Differences []string
}

func (e *ConfigError) Error() string {
	return fmt.Sprintf("stream %s is not configured as the ledger needs it: %s (hint: let the ledger create the stream, or correct what is named here)",
		e.Stream, strings.Join(e.Differences, "; "))
}

// openTries is how often an external cluster is asked for the stream at the
// opening; each time waits for an answer as long as every request does.
const openTries = 4

// assertConfig compares the stream's configuration, and creates the stream if
// there is none.
func (s *Stream) assertConfig(ctx context.Context) error {
	if s.cfg.clustered() {
		return s.ensure(ctx, s.wanted(), s.atCreation())
	}
	var info struct {
		Config map[string]any `json:"config"`
	}
	err := s.api(ctx, "STREAM.INFO."+s.cfg.Name, nil, &info)
	// A cluster does not answer while the stream has no leader, which a busy one
	// may need some seconds to choose.
	for n := 1; s.emb == nil && n < openTries && errors.Is(err, ErrUnavailable) && ctx.Err() == nil; n++ {
		err = s.api(ctx, "STREAM.INFO."+s.cfg.Name, nil, &info)
	}
	if isCode(err, codeStreamNotFound) {
		return s.create(ctx)
	}
	if err != nil {
		return fmt.Errorf("read the stream's configuration: %w", err)
	}
	if d := differences(s.wanted(), info.Config); len(d) > 0 {
		return &ConfigError{Stream: s.cfg.Name, Differences: d}
	}
	return nil
}

// openStream is assertConfig, with a second try on an empty store.
func (s *Stream) openStream(ctx context.Context) error {
	err := s.assertConfig(ctx)
	if s.shared() {
		return err
	}
	if isCode(err, codeStoreFailed) {
		if err := s.emb.startOver(ctx, err); err != nil {
			return err
		}
		if err := s.awaitConnection(ctx); err != nil {
			return err
		}
		err = s.assertConfig(ctx)
	}
	if err != nil {
		return err
	}
	return s.emb.unkeep()
}

// createTries and createPause: the server removes the empty directories of a
// deleted stream a little later, also under a new one of the same name that is
// just being made.
const (
	createTries = 25
	createPause = 20 * time.Millisecond
)

// create makes the stream.
func (s *Stream) create(ctx context.Context) error {
	for n := 1; ; n++ {
		err := s.tryCreate(ctx)
		if !isCode(err, codeStoreFailed) || n == createTries || !s.pause(ctx, createPause) {
			return err
		}
	}
}

// atCreation are settings of a new stream that an existing one need not have.
func (s *Stream) atCreation() map[string]any {
	// Consumers that nobody reads from go away by themselves, durable ones too.
	return map[string]any{"consumer_limits": map[string]any{"inactive_threshold": consumerLimit}}
}

func (s *Stream) tryCreate(ctx context.Context) error {
	cfg := s.wanted()
	cfg["num_replicas"] = s.cfg.Replicas
	maps.Copy(cfg, s.atCreation())
	var info struct {
		Config map[string]any `json:"config"`
	}
	if err := s.api(ctx, "STREAM.CREATE."+s.cfg.Name, cfg, &info); err != nil {
		return fmt.Errorf("create stream %s: %w", s.cfg.Name, err)
	}
	if d := differences(s.wanted(), info.Config); len(d) > 0 {
		return &ConfigError{Stream: s.cfg.Name, Differences: d}
	}
	return nil
}

// destroy deletes the stream with all its messages.
func (s *Stream) destroy(ctx context.Context) error {
	err := s.api(ctx, "STREAM.DELETE."+s.cfg.Name, nil, nil)
	if err != nil && !isCode(err, codeStreamNotFound) {
		return fmt.Errorf("delete stream %s: %w", s.cfg.Name, err)
	}
	return nil
}

var errSubject = errors.New("not a subject of the ledger (hint: counterfoil.v1.<tenant>.<kind>.<lifecycle>.<shard>)")

// checkSubject tells whether a subject is one of Subjects; with filter, whether
// it is such a subject with wildcards for whole tokens.
func checkSubject(subject string, filter bool) error {
	rest, ok := strings.CutPrefix(subject, "counterfoil.v1.")
	if !ok || len(subject) > 128 {
		return fmt.Errorf("%q: %w", subject, errSubject)
	}
	tokens, start := 0, 0
	for i := 0; i <= len(rest); i++ {
		if i == len(rest) || rest[i] == '.' {
			if i == start {
				return fmt.Errorf("%q: %w", subject, errSubject)
			}
			tokens, start = tokens+1, i+1
			continue
		}
		switch c := rest[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_':
		case c == '*' && filter && i == start && (i+1 == len(rest) || rest[i+1] == '.'):
		default:
			return fmt.Errorf("%q: %w", subject, errSubject)
		}
	}
	if tokens != 4 {
		return fmt.Errorf("%q: %w", subject, errSubject)
	}
	return nil
}
