package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
	"counterfoil/ledger/client"
)

// rolePolicy is the role of the policy's canonical form in the archive.
const rolePolicy = "policy"

// kept is how the archive's own write ended.
type kept struct {
	admission.Archived
	span string // spanning-set digest, with a receipt
	vsa  string // digest of the verification summary, if there is one
	// passing says that the same write may go well later.
	passing bool
}

// status is the mark of the archive phase.
func (k *kept) status() status {
	switch {
	case k == nil:
		return status{}
	case k.Receipt != "":
		return status{refs: map[string]string{"receipt": k.Receipt}}
	}
	return status{code: k.Failure}
}

// link names the records of the set; they were kept if the receipt was.
func (k *kept) link(set *admission.Set) (status, error) {
	st := status{refs: map[string]string{}}
	for _, r := range records(set) {
		digest, _, err := admission.Name(r.record)
		if err != nil {
			return status{}, fmt.Errorf("%s: %w", r.role, err)
		}
		st.refs[r.role] = digest
	}
	if k.Receipt == "" {
		st.code = admission.ArchiveWriteFailure
		return st, nil
	}
	st.refs["receipt"], st.refs["spanning_set"] = k.Receipt, k.span
	return st, nil
}

type named struct {
	role   string
	record admission.Record
}

// records lists the records that there are.
func records(s *admission.Set) []named {
	out := []named{{"evidence_bundle", s.Evidence}, {"policy_decision", s.Decision}}
	if s.Snapshot != nil {
		out = append(out, named{"registry_snapshot", s.Snapshot})
	}
	if s.Binding != nil {
		out = append(out, named{"artifact_binding", s.Binding})
	}
	return out
}

// retentionOf is the name of the retention class: that of the risk class; without
// one, where nothing can be admitted, the first of the policy that is no telemetry.
func retentionOf(p *policy.Policy, class string) string {
	if c := p.Class(class); c != nil {
		return c.Retention
	}
	for _, name := range p.RetentionClasses() {
		if r, ok := p.Retention(name); ok && r.Kind == policy.SecurityEvidence {
			return name
		}
	}
	return ""
}

// keep writes bodies, records and receipt, as often as the archive phase may. An
// error is that of ctx; what goes wrong with the archive is in the result.
func (r *run) keep(ctx context.Context, set *admission.Set) (*kept, error) {
	k := &kept{}
	err := r.repeatedly(ctx, func() (again bool, err error) {
		*k = kept{}
		err = r.write(ctx, set, k)
		if err != nil {
			k.Receipt, k.span = "", ""
			k.Failure, k.Detail, k.passing = failureOf(err)
		}
		return k.passing, err
	})
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil || k.Failure != "" {
		return k, nil
	}
	return nil, err
}

// repeatedly is the archive's right to repeat its own write.
func (r *run) repeatedly(ctx context.Context, do func() (again bool, err error)) error {
	p := archiveRights()
	for try := 1; ; try++ {
		again, err := do()
		if err == nil || !again || ctx.Err() != nil || try >= p.Attempts {
			return err
		}
		if perr := r.cfg.Pause(ctx, p.Delay<<(try-1)); perr != nil {
			return perr
		}
	}
}

func (r *run) write(ctx context.Context, set *admission.Set, k *kept) error {
	name := retentionOf(r.cfg.Policy, r.req.Class)
	ret, _ := r.cfg.Policy.Retention(name)
	to := client.Retained{Owner: r.events.attempt, Class: name, Kind: ret.Kind, Days: ret.Days, Sensitive: set.Decision.Impact == admission.ImpactPrivileged}
	for _, b := range r.bodies(set) {
		if _, err := r.cfg.Ledger.KeepBody(ctx, b.role, b.bytes, to); err != nil {
			return fmt.Errorf("keep %s: %w", b.role, err)
		}
	}
	req := &client.ReceiptRequest{
		Retention: client.RetentionClass{Class: to.Class, Kind: to.Kind, Days: to.Days}, Sensitive: to.Sensitive, Refers: r.req.Backfill,
	}
	for _, rec := range records(set) {
		b, err := admission.Encode(rec.record)
		if err != nil {
			return fmt.Errorf("%s: %w", rec.role, err)
		}
		*map[string]*jsontext.Value{
			"registry_snapshot": &req.Records.RegistrySnapshot, "artifact_binding": &req.Records.ArtifactBinding,
			"evidence_bundle": &req.Records.EvidenceBundle, "policy_decision": &req.Records.PolicyDecision,
		}[rec.role] = b
	}
	a, err := r.cfg.Ledger.SealReceipt(ctx, r.events.attempt, req)
	if err != nil {
		return fmt.Errorf("keep the receipt: %w", err)
	}
	span, err := set.Span(name)
	if err != nil {
		return err
	}
	want, err := span.Digest()
	if err != nil {
		return err
	}
	if got := a.Value.SpanningSetDigest; got != want || !admission.ValidDigest(a.Value.Receipt) {
		return &substituted{want, got}
	}
	k.Receipt, k.span, k.vsa = a.Value.Receipt, want, a.Value.VSA
	return nil
}

// substituted: the ledger put together another set than it was given.
type substituted struct{ want, got string }

func (e *substituted) Error() string {
	return fmt.Sprintf("the receipt binds spanning set %.80q, expected %s", e.got, e.want)
}

type body struct {
	role  string
	bytes []byte
}

// bodies are the bytes that the decision depended on and that are kept: the entry,
// evidence, trust material, policy. The artifact is named by digest only.
func (r *run) bodies(set *admission.Set) []body {
	out := []body{{rolePolicy, r.cfg.Policy.Canonical()}}
	if set.Snapshot != nil {
		out = append(out, body{admission.ExternalEntry, r.found.raw()})
	}
	findings := append(slices.Clone(set.Evidence.Used), set.Evidence.Others...)
	for _, f := range r.files {
		digest := admission.Digest(f.Body)
		if slices.ContainsFunc(findings, func(x admission.Finding) bool { return x.Evidence == digest }) {
			out = append(out, body{admission.ExternalEvidence, f.Body})
		}
	}
	for _, f := range r.cfg.Stack.Trust {
		if m := f.Material(); slices.ContainsFunc(set.Decision.Verifiers, func(v admission.VerifierInfo) bool { return slices.Contains(v.Trust, m) }) {
			out = append(out, body{admission.ExternalTrust, f.Body})
		}
	}
	return out
}

// failureOf words what the archive's write ended in, and whether it may pass.
func failureOf(err error) (code admission.Code, detail string, passing bool) {
	var (
		refused *client.Error
		gone    *client.Unreachable
		other   *substituted
	)
	code = admission.ArchiveWriteFailure
	switch {
	case errors.As(err, &gone):
		code = admission.ArchiveUnreachable
	case errors.As(err, &other):
		code = admission.ArchiveDigestMismatch
	case errors.As(err, &refused):
		c := admission.Code(refused.Reason)
		if i, ok := c.Info(); ok && i.Gate == admission.GateArchive {
			code = c
		} else if refused.Code == "unavailable" {
			code = admission.ArchiveUnreachable
		}
	}
	switch code {
	case admission.ArchiveRetentionDenied, admission.ArchiveDigestEncoding, admission.ArchiveDigestMismatch:
	default:
		passing = refused == nil || refused.Code == "unavailable"
	}
	return code, err.Error(), passing
}
