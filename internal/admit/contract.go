package admit

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/client"
	"counterfoil/ledger/event"
)

// earlier is the admission that the contract in force stands on.
type earlier struct {
	receipt    string
	version    string
	provenance bool
	// binding is what it pins for the same package and version, nil otherwise.
	binding *admission.ArtifactBinding
}

// contractName is the name of the contract that an admit sets.
func (r *run) contractName(server string) string {
	if r.req.Contract != "" {
		return r.req.Contract
	}
	return server
}

// lookBack reads what the contract in force pins, so that other bytes under the same
// version are found before anything else (ADM-26). Evidence that is gone pins
// nothing; the digest in the contract does.
func (r *run) lookBack(ctx context.Context, s *admission.Selection) (*earlier, error) {
	if r.req.Repin || r.req.Backfill != "" {
		return nil, nil
	}
	a, err := r.cfg.Ledger.Contract(ctx, r.contractName(s.Server.Name))
	var refused *client.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the contract in force: %w", err)
	}
	terms := a.Value.Contracts[0].ContractTerms
	if terms.Server != "" && terms.Server != s.Server.Name {
		return nil, nil // of another server
	}
	set, err := r.recordsOf(ctx, terms.Receipt)
	if err != nil || set == nil {
		return nil, err
	}
	e := &earlier{receipt: terms.Receipt, version: set.Snapshot.ServerVersion, provenance: hadProvenance(set.Evidence)}
	if b := set.Binding; samePath(b, s) && set.Snapshot.ServerVersion == s.Server.Version {
		e.binding = b
	}
	return e, nil
}

// samePath reports whether a binding is of the selected package and version.
func samePath(b *admission.ArtifactBinding, s *admission.Selection) bool {
	if b == nil {
		return false
	}
	if p := s.Package; p != nil {
		return b.PackageType == p.RegistryType && b.Identifier == p.Identifier && b.Version == p.Version
	}
	return b.PackageType == admission.TypeRemote && b.Identifier == s.Remote.URL
}

func hadProvenance(e *admission.EvidenceBundle) bool {
	for _, f := range e.Used {
		if f.Provenance != nil {
			return true
		}
	}
	return false
}

// recordsOf reads the records of a receipt; nil if they are not all there any more.
func (r *run) recordsOf(ctx context.Context, receipt string) (*admission.Set, error) {
	sealed, err := r.body(ctx, receipt)
	if err != nil || sealed == nil {
		return nil, err
	}
	old, _, err := admission.Open(sealed, nil) // its digest is in the contract, which the ledger signed
	if err != nil {
		return nil, fmt.Errorf("receipt %s: %w", receipt, err)
	}
	var set admission.Set
	for _, get := range []func() error{
		func() error {
			return into(ctx, r, &set.Snapshot, old.Records.RegistrySnapshot, admission.ParseSnapshot)
		},
		func() error {
			return into(ctx, r, &set.Binding, old.Records.ArtifactBinding, admission.ParseBinding)
		},
		func() error {
			return into(ctx, r, &set.Evidence, old.Records.EvidenceBundle, admission.ParseEvidenceBundle)
		},
	} {
		if err := get(); err != nil {
			return nil, err
		}
	}
	if set.Snapshot == nil || set.Evidence == nil {
		return nil, nil
	}
	return &set, nil
}

func into[T any](ctx context.Context, r *run, to **T, digest string, parse func([]byte) (*T, error)) error {
	if digest == "" {
		return nil
	}
	b, err := r.body(ctx, digest)
	if err != nil || b == nil {
		return err
	}
	v, err := parse(b)
	if err != nil {
		return fmt.Errorf("record %s: %w", digest, err)
	}
	*to = v
	return nil
}

// body reads a body by its digest; nil if it is gone or was never there.
func (r *run) body(ctx context.Context, digest string) ([]byte, error) {
	b, err := r.cfg.Ledger.ArchiveBody(ctx, digest, 2*admission.MaxRecordBytes)
	var refused *client.Error
	if errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusGone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s from the archive: %w", digest, err)
	}
	if got := admission.Digest(b); got != digest {
		return nil, fmt.Errorf("the archive answered %s with other bytes: %s", digest, got)
	}
	return b, nil
}

// setContract sets the contract that stands on an admit. It refers to artifact,
// tools and receipt, and copies nothing else (ADM-24).
func (r *run) setContract(ctx context.Context, res *Result) (*Contract, error) {
	b := r.judged.Input.Binding
	name := r.contractName(res.Server)
	terms := event.ContractTerms{
		Impact: string(r.judged.Class.Impact), Receipt: res.Receipt, Admission: res.EventID,
		Artifact: b.SHA256(), Class: r.req.Class, Server: res.Server,
	}
	if d := b.Deployment; d != nil {
		terms.Tools = d.Tools
	}
	begin := r.draft("contract", client.Subject{Kind: string(event.Contract), ID: name})
	begin.Contract = &terms
	a, err := r.cfg.Ledger.Begin(ctx, begin, r.cfg.Wait)
	if err != nil {
		return nil, fmt.Errorf("set contract %q: %w", name, err)
	}
	if _, err := r.cfg.Ledger.Append(ctx, &client.Append{AttemptID: a.Value.AttemptID, Lifecycle: string(event.Outcome), SourceEventID: "set",
		OccurredAt: r.now(), Status: event.StatusSucceeded, Refs: map[string]string{event.RefAdmission: res.EventID}}, client.Accepted); err != nil {
		return nil, fmt.Errorf("contract %q is set, but its outcome is not recorded: %w", name, err)
	}
	return &Contract{Name: name, Digest: terms.Digest(name).String(), EventID: a.Value.EventID, AttemptID: a.Value.AttemptID}, nil
}
