package rpc

import (
	"encoding/base64"
	"errors"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
	"counterfoil/ledger/intake"
	v1 "counterfoil/proto/counterfoil/v1"
)

// beginBody is a begin as the HTTP interface takes it. Paths in errors are those
// of the HTTP interface.
func beginBody(r *v1.BeginRequest) ([]byte, error) {
	src, act := r.GetSource(), r.GetAction()
	if src.GetEventId() != "" || src.GetAssurance() != nil {
		return nil, &intake.RequestError{Path: "/source", Detail: "a begin has no event id, and its assurance is not the caller's to state",
			Hint: "leave out event_id and assurance"}
	}
	b := intake.Begin{
		Source: intake.BeginSource{RuntimeID: src.GetRuntimeId(), AgentID: src.GetAgentId(), InvocationID: src.GetInvocationId(),
			Protocol: src.GetProtocol(), Implementation: src.GetImplementation()},
		OccurredAt: r.GetOccurredAt(), TraceID: r.GetTraceId(), KeepBody: r.GetKeepBody(),
		Action:  event.Action{Name: act.GetName(), EffectKind: act.GetEffectKind(), EffectMode: act.GetEffectMode()},
		Subject: event.Subject{Kind: event.SubjectKind(r.GetSubject().GetKind()), ID: r.GetSubject().GetId()},
	}
	if c := r.GetContract(); c != nil {
		b.Contract = &event.ContractTerms{Impact: c.GetImpact(), Receipt: c.GetReceipt(), Admission: c.GetAdmission(), Artifact: c.GetArtifact(),
			Tools: c.GetTools(), Class: c.GetClass(), Server: c.GetServer()}
	}
	var errInput, errEffect error
	switch v := r.GetPrivateInput().(type) {
	case *v1.BeginRequest_PrivateInputJson:
		b.PrivateInput, errInput = value("/privateInput", v.PrivateInputJson)
	case *v1.BeginRequest_PrivateInputRaw:
		b.PrivateRaw, errInput = raw("/privateInputRaw", v.PrivateInputRaw)
	}
	if r.ExpectedEffectJson != nil {
		b.ExpectedEffect, errEffect = value("/expectedEffect", r.ExpectedEffectJson)
	}
	return body(&b, errInput, errEffect)
}

// appendBody is an append as the HTTP interface takes it.
func appendBody(r *v1.AppendRequest) ([]byte, error) {
	a := intake.Append{
		AttemptID: r.GetAttemptId(), Lifecycle: event.Lifecycle(r.GetLifecycle()), SourceEventID: r.GetSourceEventId(),
		OccurredAt: r.GetOccurredAt(), Status: r.GetStatus(), ReasonCodes: r.GetReasonCodes(), Refs: r.GetRefs(),
		Reviewer: r.GetReviewer(), Rubric: r.GetRubric(), KeepBody: r.GetKeepBody(),
	}
	if run := r.GetRun(); run != nil {
		a.Run = &event.ReviewRun{ID: run.GetId(), Trigger: run.GetTrigger(), Mode: run.GetMode(), Impact: run.GetImpact(), Recheck: run.GetRecheck(), Causes: run.GetCauses()}
	}
	var errResult, errValue error
	switch v := r.GetPrivateResult().(type) {
	case *v1.AppendRequest_PrivateResultJson:
		a.PrivateResult, errResult = value("/privateResult", v.PrivateResultJson)
	case *v1.AppendRequest_PrivateResultRaw:
		a.PrivateRaw, errResult = raw("/privateResultRaw", v.PrivateResultRaw)
	}
	if rb := r.GetReadback(); rb != nil {
		a.ReadBack = &intake.ReadBack{Source: rb.GetSource(), Observed: rb.GetObserved(), Count: rb.GetCount()}
		if rb.ValueJson != nil {
			a.ReadBack.Value, errValue = value("/readback/value", rb.ValueJson)
		}
	}
	return body(&a, errResult, errValue)
}

// value reads a private value strictly and brings it into canonical form, which
// is also what keeps it from being more than one value in the body.
func value(path string, text []byte) (jsontext.Value, error) {
	out, err := canon.Private.Canonical(text)
	var ce *canon.Error
	if errors.As(err, &ce) {
		return nil, &intake.RequestError{Path: path + ce.Path, Detail: ce.Reason + ": " + ce.Detail, Hint: ce.Hint,
			TooLarge: ce.Reason == canon.ReasonTooLarge}
	}
	return out, err
}

// raw refuses no bytes at all: in the HTTP interface they are no value.
func raw(path string, b []byte) (string, error) {
	if len(b) == 0 {
		return "", &intake.RequestError{Path: path, Detail: "no bytes", Hint: "leave the field out where there is no value"}
	}
	return base64.StdEncoding.EncodeToString(b), nil
}

func body(request any, errs ...error) ([]byte, error) {
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return json.Marshal(request)
}

// query is a list's filter in the names of the HTTP interface.
type query url.Values

func (q query) text(name, v string) query {
	if v != "" {
		q[name] = []string{v}
	}
	return q
}

func (q query) page(limit uint32, token, order string) url.Values {
	if limit != 0 {
		q.text("limit", strconv.FormatUint(uint64(limit), 10))
	}
	return url.Values(q.text("pageToken", token).text("order", order))
}
