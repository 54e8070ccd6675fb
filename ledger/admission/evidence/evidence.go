// Package evidence reads evidence that an operator names and hands each file to
// the verifier that reads it. Its sub-packages are the resolvers and verifiers.
//
//	fetch      one file from a URL or a disk, with bounds
//	archive    a look into tars and zips without unpacking them
//	sigstore   Sigstore bundles, keyless and by keys
//	npm        npm packages and the attestations of npm registries
//	pypi       Python packages and PEP 740
//	oci        container images and the bundles that refer to them
//	mcpb       MCP bundles and their signature blocks
//	remote     servers that somebody else runs
//	namespace  what a namespace's own domain says about it
//
// Everything here does I/O through a [fetch.Fetcher] and tells the time by its
// clock; verifiers do no I/O at all, so evidence from an archive is judged as it
// was when it was fresh.
package evidence

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/fetch"
	"counterfoil/ledger/admission/evidence/sigstore"
)

// endings are the files of a folder that are taken for evidence.
var endings = []string{".json", ".jsonl", ".sigstore", ".intoto", ".provenance", ".mcpb-sig"}

// Read reads evidence by name: files, URLs, and folders, whose files of a known
// ending are read in the order of their names, not those of folders in them. What
// cannot be read is a source that is unavailable. An error says that nothing was
// found out, or that there are more than [admission.MaxEvidenceFiles].
func Read(ctx context.Context, f *fetch.Fetcher, names ...string) ([]admission.Evidence, []admission.Source, error) {
	files, err := expand(names)
	if err != nil {
		return nil, nil, err
	}
	var found []admission.Evidence
	var sources []admission.Source
	for _, name := range files {
		body, blob, err := f.Bytes(ctx, fetch.Request{Locator: name, MaxBytes: admission.MaxEvidenceBytes})
		if err != nil && fetch.KindOf(err) == "" {
			return nil, nil, err
		}
		s := admission.Source{Locator: fetch.Redact(name), State: fetch.SourceState(err)}
		sources = append(sources, s)
		if err == nil {
			found = append(found, admission.Evidence{MediaType: mediaType(name, blob.MediaType), Locator: s.Locator, Body: body})
		}
	}
	return found, sources, nil
}

// mediaType is what a source says of a file, unless it says nothing of use.
func mediaType(name, said string) string {
	if fetch.IsURL(name) && len(said) <= 255 && said == fetch.Clip(said) {
		return said
	}
	return ""
}

func expand(names []string) ([]string, error) {
	var files []string
	for _, name := range names {
		if info, err := os.Stat(name); fetch.IsURL(name) || err != nil || !info.IsDir() {
			files = append(files, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, fmt.Errorf("folder of evidence: %w", err)
		}
		n := 0
		for _, e := range entries { // sorted by name
			if !e.IsDir() && slices.Contains(endings, filepath.Ext(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
				files = append(files, filepath.Join(name, e.Name()))
				n++
			}
		}
		if n == 0 {
			return nil, fmt.Errorf("folder of evidence %s: no file that ends in %s", name, strings.Join(endings, ", "))
		}
	}
	if len(files) > admission.MaxEvidenceFiles {
		return nil, fmt.Errorf("%d files of evidence, limit %d", len(files), admission.MaxEvidenceFiles)
	}
	return files, nil
}

// Judge hands each file to the first verifier that reads it, and returns all
// findings in the order of the files. Equal files are judged once. A file that
// nobody reads is a failed finding: evidence is never dropped in silence.
func Judge(ctx context.Context, verifiers []admission.Verifier, files []admission.Evidence, a *admission.ArtifactBinding) ([]admission.Finding, error) {
	var findings []admission.Finding
	seen := map[string]bool{}
	for _, e := range files {
		digest := admission.Digest(e.Body)
		if seen[digest] {
			continue
		}
		seen[digest] = true
		i := slices.IndexFunc(verifiers, func(v admission.Verifier) bool { return v.Handles(e) })
		if i < 0 {
			f := admission.Finding{Evidence: digest, Locator: e.Locator, Verifier: "none"}
			findings = append(findings, sigstore.Fail(f, admission.AttestationMalformed, "no verifier reads a file of this form"))
			continue
		}
		found, err := verifiers[i].Verify(ctx, e, a)
		if err != nil {
			return nil, fmt.Errorf("evidence %s: %w", e.Locator, err)
		}
		findings = append(findings, found...)
	}
	return findings, nil
}
