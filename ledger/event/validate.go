package event

import (
	"slices"
	"strings"
	"unicode/utf8"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/excerpt"
)

// Validate checks every member of the event by itself; whether the event may
// follow another is package lifecycle's to say. Errors are of type *[Error].
func (e *Event) Validate() error {
	if e.Schema != Schema {
		return bad("/schema", "%q, want %q", e.Schema, Schema)
	}
	if err := CheckOrigin("/ledger", e.Ledger); err != nil {
		return err
	}
	if !ValidTenant(e.Tenant) {
		return bad("/tenant", "%q is not 1 to %d of a-z 0-9 -", e.Tenant, MaxTenantBytes)
	}
	if _, ok := ShardOfAttempt(e.AttemptID); !ok {
		return bad("/attemptId", `%q is not "att_" and 32 lower-case hex digits`, e.AttemptID)
	}
	if e.Revision < 1 || e.Revision > MaxRevision {
		return bad("/revision", "%d is not within 1 to %d", e.Revision, MaxRevision)
	}
	if (e.Previous == "") != (e.Revision == 1) {
		return bad("/previous", "must be absent at revision 1 and present after it")
	}
	if e.Previous != "" {
		if _, ok := ParseDigest(e.Previous); !ok {
			return bad("/previous", `not "sha256:" and 64 lower-case hex digits`)
		}
	}
	if (e.Lifecycle == Attempt) != (e.Revision == 1) {
		return bad("/lifecycle", "%q at revision %d: an attempt is the first event, and only that", e.Lifecycle, e.Revision)
	}
	if !KnownKind(e.Subject.Kind) {
		return bad("/subject/kind", "unknown kind %q", e.Subject.Kind)
	}
	words := Statuses(e.Lifecycle, e.Subject.Kind)
	if words == nil {
		return bad("/lifecycle", "unknown lifecycle %q", e.Lifecycle)
	}
	if !slices.Contains(words, e.Status) {
		return bad("/status", "%q is not one of %s", e.Status, strings.Join(words, ", "))
	}
	if want := ClaimBoundaryFor(e.Lifecycle, e.Subject.Kind); e.ClaimBoundary != want {
		return bad("/claimBoundary", "%q, want %q: the code is fixed per kind", e.ClaimBoundary, want)
	}
	if _, ok := ParseTime(e.OccurredAt); !ok {
		return badTime("/occurredAt", e.OccurredAt)
	}
	if _, ok := ParseTime(e.CapturedAt); !ok {
		return badTime("/capturedAt", e.CapturedAt)
	}
	if (e.Source.EventID == "") != (e.Lifecycle == Attempt) {
		return bad("/source/eventId", "must be absent in an attempt and present in what follows it")
	}
	for _, f := range []struct {
		path, value string
		optional    bool
	}{
		{"/subject/id", e.Subject.ID, false},
		{"/source/runtimeId", e.Source.RuntimeID, false},
		{"/source/agentId", e.Source.AgentID, false},
		{"/source/invocationId", e.Source.InvocationID, false},
		{"/source/protocol", e.Source.Protocol, false},
		{"/source/implementation", e.Source.Implementation, false},
		{"/source/eventId", e.Source.EventID, true},
		{"/source/assurance/level", e.Source.Assurance.Level, false},
		{"/source/assurance/status", e.Source.Assurance.Status, false},
		{"/traceId", e.TraceID, true},
		{"/action/name", e.Action.Name, false},
		{"/action/effectKind", e.Action.EffectKind, false},
		{"/action/effectMode", e.Action.EffectMode, false},
	} {
		if f.optional && f.value == "" {
			continue
		}
		if err := CheckID(f.path, f.value); err != nil {
			return err
		}
	}
	if len(e.ReasonCodes) > MaxReasonCodes {
		return bad("/reasonCodes", "%d codes, limit %d", len(e.ReasonCodes), MaxReasonCodes)
	}
	for i, c := range e.ReasonCodes {
		if !ValidReasonCode(c) {
			return bad("/reasonCodes", "%q is not lower_snake of at most %d bytes", c, MaxReasonBytes)
		}
		if slices.Contains(e.ReasonCodes[:i], c) {
			return bad("/reasonCodes", "%q twice", c)
		}
	}
	if shard, _ := ShardOfAttempt(e.AttemptID); shard != ScopeOf(e.Tenant, e.Source.RuntimeID, e.Source.InvocationID).Shard() {
		return bad("/attemptId", "shard %s is not the shard of its tenant, runtime and invocation", shard)
	}
	if err := e.validateMaps(); err != nil {
		return err
	}
	return e.validateStatement()
}

func badTime(path, got string) *Error {
	return &Error{Path: path, Detail: "time " + clip(got) + " is not RFC 3339 in UTC with milliseconds", Hint: "write it like 2026-07-28T00:00:00.000Z"}
}

func (e *Event) validateMaps() error {
	for _, m := range []struct {
		path   string
		values map[string]string
		ok     func(string) bool
		want   string
	}{
		{"/commitments", e.Commitments, isDigest, `"sha256:" and 64 lower-case hex digits`},
		{"/tags", e.Tags, isTag, `"hmac-sha256:" and 64 lower-case hex digits`},
		{"/refs", e.Refs, isRef, "a sha256: digest or an event id"},
	} {
		if len(m.values) > MaxMapMembers {
			return bad(m.path, "%d members, limit %d", len(m.values), MaxMapMembers)
		}
		for name, v := range m.values {
			if !validName(name) {
				return bad(m.path, "name %q is not a letter followed by at most %d letters, digits or _", clip(name), MaxNameBytes-1)
			}
			if !m.ok(v) {
				return bad(m.path+"/"+name, "not %s", m.want)
			}
		}
	}
	return nil
}

func isDigest(s string) bool { _, ok := ParseDigest(s); return ok }
func isTag(s string) bool    { _, ok := parseHex32("hmac-sha256:", s); return ok }
func isRef(s string) bool    { _, ok := ParseEventID(s); return ok || isDigest(s) }

// CheckID checks an identifier that a source chose: 1 to MaxIDBytes bytes of
// UTF-8 without control characters or noncharacters.
func CheckID(path, s string) error {
	if s == "" {
		return bad(path, "missing or empty")
	}
	if len(s) > MaxIDBytes {
		return bad(path, "%d bytes, limit %d", len(s), MaxIDBytes)
	}
	if !utf8.ValidString(s) {
		return bad(path, "invalid UTF-8")
	}
	for _, r := range s {
		if r < ' ' || (r >= 0x7f && r <= 0x9f) || r&0xFFFE == 0xFFFE || (r >= 0xFDD0 && r <= 0xFDEF) {
			return bad(path, "character %U is not allowed in an identifier", r)
		}
	}
	return nil
}

// CheckOrigin checks a log origin, which is also the log's key name: no space,
// no plus sign (C2SP signed-note), and at most 255 bytes (tlog-cosignature).
func CheckOrigin(path, s string) error {
	if err := CheckID(path, s); err != nil {
		return err
	}
	if strings.ContainsAny(s, "+ \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000") {
		return bad(path, "an origin holds no space and no plus sign")
	}
	return nil
}

// ValidTenant reports whether s can be a tenant, and so a subject token.
func ValidTenant(s string) bool {
	if s == "" || len(s) > MaxTenantBytes {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}

// ValidReasonCode reports whether s has the form of a reason code.
func ValidReasonCode(s string) bool {
	if s == "" || len(s) > MaxReasonBytes || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return true
}

func validName(s string) bool {
	if s == "" || len(s) > MaxNameBytes {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || !(c >= '0' && c <= '9' || c == '_')) {
			return false
		}
	}
	return true
}

func lowerHex(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f') {
			return false
		}
	}
	return true
}

// clip shortens what is quoted in a message.
func clip(s string) string { return excerpt.Cut(s, 64) }

var statementProfile = canon.Profile{MaxBytes: MaxEventBytes, MaxDepth: canon.Restricted.MaxDepth - 1}
