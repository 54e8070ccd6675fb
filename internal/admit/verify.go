package admit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence"
	"counterfoil/ledger/admission/evidence/fetch"
)

// prepare settles what is judged by what: the policy, the path through the entry,
// and what an earlier admission pins.
func (r *run) prepare(ctx context.Context) (status, error) {
	st := status{refs: map[string]string{"policy": r.cfg.Policy.Ref().Digest}}
	s := r.found.snapshot
	if s == nil || s.Entry == nil {
		return st, nil
	}
	chosen, err := choose(s.Entry, r.req.Package)
	if err != nil {
		return st, nil //nolint:nilerr // verify says so, as a failure of the artifact
	}
	chosen.Override = r.req.Artifact
	r.selected = chosen
	if r.earlier, err = r.lookBack(ctx, chosen); err != nil {
		return status{}, err
	}
	if r.earlier != nil {
		st.refs["pinned_by"] = r.earlier.receipt
		if r.earlier.binding != nil {
			chosen.Expected = r.earlier.binding
		}
	}
	if chosen.Expected == nil {
		if chosen.Expected, err = r.tagNow(ctx, chosen); err != nil {
			return status{}, err
		}
	}
	if r.req.Expected != nil { // an operator's word goes before
		chosen.Expected = &admission.ArtifactBinding{Kind: admission.KindBytes, Bytes: &admission.BytesBinding{Digests: r.req.Expected}}
	}
	return st, nil
}

// tagger is a resolver whose artifacts are found by a tag that can move.
type tagger interface {
	Tag(ctx context.Context, s admission.Selection) (string, *admission.Failure, error)
}

// tagNow is what a tag points to before the artifact is fetched; nil if there is no
// tag, or if it cannot be read, which the resolver finds too.
func (r *run) tagNow(ctx context.Context, s *admission.Selection) (*admission.ArtifactBinding, error) {
	i := slices.IndexFunc(r.cfg.Stack.Resolvers, func(v admission.Resolver) bool { return v.PackageType() == typeOf(s) })
	if i < 0 || s.Override != "" {
		return nil, nil
	}
	t, ok := r.cfg.Stack.Resolvers[i].(tagger)
	if !ok {
		return nil, nil
	}
	digest, failure, err := t.Tag(ctx, *s)
	if err != nil || failure != nil {
		return nil, err
	}
	return &admission.ArtifactBinding{Kind: admission.KindBytes,
		Bytes: &admission.BytesBinding{Digests: admission.DigestSet{"sha256": strings.TrimPrefix(digest, "sha256:")}}}, nil
}

// typeOf is the package type of a selection.
func typeOf(s *admission.Selection) string {
	if s.Package != nil {
		return s.Package.RegistryType
	}
	return admission.TypeRemote
}

// verify resolves the artifact, has its evidence verified, and asks the policy.
func (r *run) verify(ctx context.Context) (status, error) {
	stack := r.cfg.Stack
	in := &admission.Input{Class: r.req.Class, At: stack.Fetch.Now(), Snapshot: r.found.snapshot, SnapshotFailure: r.found.failure}
	if r.earlier != nil {
		in.Previous = &admission.Previous{Version: r.earlier.version, HadProvenance: r.earlier.provenance}
	}
	if s := r.found.snapshot; s != nil && s.Entry != nil {
		if err := r.evidence(ctx, in); err != nil {
			return status{}, err
		}
	}
	r.judged = admission.Decide(in, r.cfg.Policy)
	st := status{refs: map[string]string{}}
	if r.judged.Decision != admission.Admit {
		st.code = r.judged.ReasonCodes[0]
	}
	if b := r.judged.Input.Binding; b != nil {
		digest, _, err := admission.Name(b)
		if err != nil {
			return status{}, err
		}
		st.refs["artifact_binding"] = digest
		if d := b.SHA256(); d != "" {
			st.refs["artifact"] = d
		}
	}
	return st, nil
}

func (r *run) evidence(ctx context.Context, in *admission.Input) error {
	res, err := r.resolve(ctx)
	if err != nil {
		return err
	}
	in.Binding, in.BindingFailure, in.Checks, in.Sources = res.Binding, res.Failure, res.Checks, res.Sources
	in.Expected = expected(r.selected)
	if r.req.Backfill != "" { // what there is today was not part of it (ARC-13)
		res.Evidence, in.Sources = nil, nil
	}
	files, sources, err := evidence.Read(ctx, r.cfg.Stack.Fetch, r.req.Evidence...)
	if err != nil {
		return err
	}
	r.files, in.Sources = append(res.Evidence, files...), append(in.Sources, sources...)
	if len(r.files) > admission.MaxEvidenceFiles {
		return fmt.Errorf("%d files of evidence, limit %d", len(r.files), admission.MaxEvidenceFiles)
	}
	for _, v := range r.cfg.Stack.Verifiers {
		if slices.ContainsFunc(r.files, v.Handles) {
			in.Verifiers = append(in.Verifiers, v.Info())
		}
	}
	if in.Binding == nil {
		return nil // nothing that the evidence could be about
	}
	return r.repeated(ctx, "verification", func() (err error) {
		in.Findings, err = evidence.Judge(ctx, r.cfg.Stack.Verifiers, r.files, in.Binding)
		return err
	})
}

// expected are the digests that a selection pins, nil if it pins none.
func expected(s *admission.Selection) admission.DigestSet {
	if s == nil || s.Expected == nil || s.Expected.Bytes == nil {
		return nil
	}
	return s.Expected.Bytes.Digests
}

// resolve finds the artifact on the selected path, and on no other (ADM-21).
func (r *run) resolve(ctx context.Context) (res admission.Resolution, err error) {
	if r.selected == nil {
		_, err := choose(r.found.snapshot.Entry, r.req.Package)
		return fetch.Failed(admission.MissingArtifactBinding, err.Error()), nil
	}
	kind := typeOf(r.selected)
	i := slices.IndexFunc(r.cfg.Stack.Resolvers, func(v admission.Resolver) bool { return v.PackageType() == kind })
	if i < 0 {
		return fetch.Failed(admission.ArtifactUnsupported, "no resolver reads packages of type "+kind), nil
	}
	err = r.repeated(ctx, "verification", func() (err error) {
		res, err = r.cfg.Stack.Resolvers[i].Resolve(ctx, *r.selected)
		return err
	})
	return res, err
}

// rights are the retry rights of a phase.
func rights(name string) admission.Phase {
	i := slices.IndexFunc(admission.RetryRights, func(p admission.Phase) bool { return p.Name == name })
	return admission.RetryRights[i]
}

func archiveRights() admission.Phase { return rights("archive") }

// repeated does something as often as a phase may.
func (r *run) repeated(ctx context.Context, phase string, do func() error) error {
	p := rights(phase)
	for try := 1; ; try++ {
		err := do()
		if err == nil || ctx.Err() != nil || try >= p.Attempts {
			return err
		}
		if perr := r.cfg.Pause(ctx, p.Delay<<(try-1)); perr != nil {
			return perr
		}
	}
}
