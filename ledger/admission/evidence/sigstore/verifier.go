// Package sigstore judges Sigstore bundles offline, with trust material that is
// given: signatures by short-lived certificates (keyless) and by keys.
//
// A verified finding means all of this about one attestation: its one signature
// fits the payload; the certificate leads to the trust root and was logged, or the
// key is in the trust material; a transparency log of the trust root has the
// signature; a log or a timestamp authority shows a time at which certificate or
// key was valid; and one subject has the artifact's digests, all that both name.
// Who signed and what kind of statement it is are reported, not judged: that is
// for the policy, on the same finding.
//
// The judgement is that of sigstore-go. When it refuses, its steps are taken once
// more one by one, only to say which one failed (diagnose.go).
//
// Sources: requirements ADM-13, ADM-16, ADM-26, CLM-06; the Sigstore bundle and
// client specifications; in-toto Statement v1, SLSA provenance v1.
package sigstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/excerpt"
)

// LibraryVersion is the version of sigstore-go that judges. A test compares it
// with go.mod.
const LibraryVersion = "v1.3.0"

// ownVersion changes when answers change for a reason that is ours.
const ownVersion = "1"

// Version names both.
const Version = ownVersion + "+sigstore-go." + LibraryVersion

// bundleType is how the media types of all versions of bundles begin.
const bundleType = "application/vnd.dev.sigstore.bundle"

const (
	maxTrustBytes = 4 << 20
	maxKeys       = 256
)

// File is a file of trust material.
type File struct {
	Name string // in the decision: trusted_root, npm_keys, …
	Body []byte
}

// Material names the file in records.
func (f File) Material() admission.TrustMaterial {
	return admission.TrustMaterial{Name: f.Name, Digest: admission.Digest(f.Body)}
}

// Config says what a verifier believes. It believes nothing else: it reads no
// file, no network and no clock.
type Config struct {
	// ID is the verifier's id in findings. Default: sigstore.
	ID string
	// Root is a Sigstore trusted root (trusted_root.json). Without one no
	// certificate, log or timestamp authority is believed.
	Root *File
	// Keys are believed besides certificates.
	Keys []Key
	// KeyFiles are the files that Keys were read from.
	KeyFiles []File
}

// Verifier judges bundles. It implements [admission.Verifier].
type Verifier struct {
	info admission.VerifierInfo
	keys map[string]*Key
	root root.TrustedMaterial // certificates, logs, timestamp authorities
	all  root.TrustedMaterial // and the keys

	keyless *verify.Verifier // certificates
	logged  *verify.Verifier // keys whose signatures are in a log
	timed   *verify.Verifier // keys without log, with a timestamp
	untimed *verify.Verifier // keys without log and timestamp
}

// New reads the trust material.
func New(cfg Config) (*Verifier, error) {
	if cfg.ID == "" {
		cfg.ID = "sigstore"
	}
	v := &Verifier{info: admission.VerifierInfo{ID: cfg.ID, Version: Version}, keys: map[string]*Key{}, root: &root.BaseTrustedMaterial{}}
	if cfg.Root != nil {
		if len(cfg.Root.Body) > maxTrustBytes {
			return nil, fmt.Errorf("trusted root %s: %d bytes, limit %d", cfg.Root.Name, len(cfg.Root.Body), maxTrustBytes)
		}
		tr, err := root.NewTrustedRootFromJSON(cfg.Root.Body)
		if err != nil {
			return nil, fmt.Errorf("trusted root %s: %w", cfg.Root.Name, err)
		}
		v.root = tr
		v.info.Trust = append(v.info.Trust, cfg.Root.Material())
	}
	for _, f := range cfg.KeyFiles {
		v.info.Trust = append(v.info.Trust, f.Material())
	}
	if n := len(v.info.Trust); n > admission.MaxTrustMaterials {
		return nil, fmt.Errorf("%d files of trust material, limit %d", n, admission.MaxTrustMaterials)
	}
	if err := v.addKeys(cfg.Keys); err != nil {
		return nil, err
	}
	log, times, terse := verify.WithTransparencyLog(1), verify.WithObserverTimestamps(1), verify.WithoutStatementPredicate()
	var errs [4]error
	v.keyless, errs[0] = verify.NewVerifier(v.root, verify.WithSignedCertificateTimestamps(1), log, times, terse)
	v.logged, errs[1] = verify.NewVerifier(v.all, log, times, terse)
	v.timed, errs[2] = verify.NewVerifier(v.all, times, terse)
	v.untimed, errs[3] = verify.NewVerifier(v.all, verify.WithNoObserverTimestamps(), terse)
	return v, errors.Join(errs[:]...)
}

func (v *Verifier) addKeys(keys []Key) error {
	if len(keys) > maxKeys {
		return fmt.Errorf("%d keys, limit %d", len(keys), maxKeys)
	}
	trusted := map[string]*root.ExpiringKey{}
	for i := range keys {
		k := keys[i]
		switch {
		case k.ID == "":
			return fmt.Errorf("key %d has no id", i)
		case v.keys[k.ID] != nil:
			return fmt.Errorf("key %q is there twice, so a signature by it could mean either", k.ID)
		}
		loaded, err := signature.LoadDefaultVerifier(k.Public)
		if err != nil {
			return fmt.Errorf("key %q: %w", k.ID, err)
		}
		v.keys[k.ID] = &k
		trusted[k.ID] = root.NewExpiringKey(loaded, k.NotBefore, k.NotAfter)
	}
	v.all = root.TrustedMaterialCollection{v.root, root.NewTrustedPublicKeyMaterialFromMapping(trusted)}
	return nil
}

// Info implements [admission.Verifier].
func (v *Verifier) Info() admission.VerifierInfo { return v.info }

// Handles implements [admission.Verifier]: a bundle, or several, one a line.
func (v *Verifier) Handles(e admission.Evidence) bool {
	if strings.HasPrefix(e.MediaType, bundleType) {
		return true
	}
	first, _, _ := bytes.Cut(bytes.TrimSpace(e.Body), []byte("\n"))
	for _, body := range [][]byte{e.Body, first} {
		if m, err := Members(body); err == nil {
			return strings.HasPrefix(Text(m["mediaType"]), bundleType)
		}
	}
	return false
}

// Verify implements [admission.Verifier].
func (v *Verifier) Verify(ctx context.Context, e admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	f := v.Finding(e)
	if whole, bad := CheckSize(e, f); bad {
		return []admission.Finding{whole}, nil
	}
	lines := [][]byte{e.Body}
	// Several bundles stand one a line; one may take many lines.
	if first, more, found := bytes.Cut(bytes.TrimSpace(e.Body), []byte("\n")); found && len(more) > 0 && jsontext.Value(first).IsValid(jsontext.AllowDuplicateNames(true)) {
		lines = bytes.Split(bytes.TrimSpace(e.Body), []byte("\n"))
	}
	if len(lines) > admission.MaxFindings {
		return []admission.Finding{Fail(f, admission.AttestationMalformed, "%d bundles in one file, limit %d", len(lines), admission.MaxFindings)}, nil
	}
	findings := make([]admission.Finding, 0, len(lines))
	for _, line := range lines {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		findings = append(findings, v.Judge(line, f, a))
	}
	return findings, nil
}

// Finding is what every finding about a file has.
func (v *Verifier) Finding(e admission.Evidence) admission.Finding {
	return admission.Finding{Evidence: admission.Digest(e.Body), Locator: e.Locator, Verifier: v.info.ID}
}

// CheckSize refuses a file that is larger than evidence may be.
func CheckSize(e admission.Evidence, f admission.Finding) (admission.Finding, bool) {
	if len(e.Body) > admission.MaxEvidenceBytes {
		return Fail(f, admission.EvidenceTooLarge, "%d bytes, limit %d", len(e.Body), admission.MaxEvidenceBytes), true
	}
	return f, false
}

// Fail makes a finding a failed one.
func Fail(f admission.Finding, code admission.Code, format string, args ...any) admission.Finding {
	f.State, f.Code, f.Detail = admission.FindingFailed, code, clip(fmt.Sprintf(format, args...), admission.MaxDetailBytes)
	return f
}

// clip shortens a text at a rune and takes out what a terminal would act on.
func clip(s string, n int) string { return excerpt.First(excerpt.Printable(s), n) }

// earliest is the first of the times at which the signature is known to have
// existed.
func earliest(times []verify.TimestampVerificationResult) (t time.Time) {
	for _, r := range times {
		if t.IsZero() || r.Timestamp.Before(t) {
			t = r.Timestamp
		}
	}
	return t
}
