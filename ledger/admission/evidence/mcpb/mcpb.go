// Package mcpb resolves MCP bundles (.mcpb): zip files at a URL, with an optional
// signature block behind the zip.
//
// Two things are bound: the whole file, which is what an entry's fileSha256 is
// about, and the bytes before the signature block, which is what the signature is
// about.
//
//	file  = zip ‖ block
//	block = "MCPB_SIG_V1" ‖ length of the signature, 4 bytes little endian
//	        ‖ PKCS#7 SignedData, DER, detached ‖ "MCPB_SIG_END"
//
// Sources: requirements ADM-06, ADM-13; @anthropic-ai/mcpb; RFC 5652.
package mcpb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"counterfoil/internal/jsonrpc"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/evidence/archive"
	"counterfoil/ledger/admission/evidence/fetch"
)

// MediaType is the media type of a signature block that was cut out of a file.
const MediaType = "application/vnd.counterfoil.mcpb-signature-block"

const (
	header = "MCPB_SIG_V1"
	footer = "MCPB_SIG_END"
	// maxBlock bounds a block: a chain of certificates takes a few KiB.
	maxBlock = 256 << 10
)

// Config says how bundles are read.
type Config struct {
	Fetch  *fetch.Fetcher // required
	Limits archive.Limits // of what a bundle unpacks to
}

// Resolver reads bundles. It implements [admission.Resolver].
type Resolver struct{ cfg Config }

// NewResolver returns a resolver.
func NewResolver(cfg Config) (*Resolver, error) {
	if cfg.Fetch == nil {
		return nil, errors.New("mcpb: nothing to fetch with")
	}
	return &Resolver{cfg}, nil
}

// PackageType implements [admission.Resolver].
func (r *Resolver) PackageType() string { return admission.TypeMCPB }

// Resolve implements [admission.Resolver].
func (r *Resolver) Resolve(ctx context.Context, s admission.Selection) (admission.Resolution, error) {
	p := s.Package
	if p == nil || p.RegistryType != admission.TypeMCPB {
		return admission.Resolution{}, errors.New("mcpb: the selection is no bundle")
	}
	locator := p.Identifier
	if s.Override != "" {
		locator = s.Override
	} else if !fetch.IsURL(locator) {
		return fetch.Failed(admission.ArtifactUnresolved, fmt.Sprintf("identifier %.300q is no URL", locator)), nil
	}
	blob, err := r.cfg.Fetch.Get(ctx, fetch.Request{Locator: locator})
	if err != nil {
		return fetch.Unread(err)
	}
	defer blob.Close()
	var checks []admission.Check
	if c, remote := blob.SourceCheck(); remote {
		checks = append(checks, c)
	}
	a := blob.Bind(s)
	if f := fetch.Unexpected(s, a); f != nil {
		return admission.Resolution{Failure: f, Checks: checks}, nil
	}
	checks = append(checks, fetch.Compared(admission.CheckFileSHA256, p.FileSHA256, blob.Digests["sha256"], admission.FileSHA256Mismatch))
	content, block, err := split(blob, blob.Size)
	if err != nil {
		return fetch.Failed(admission.ArtifactUnsafe, err.Error(), checks...), nil
	}
	inside, err := manifest(ctx, blob, content, r.cfg.Limits)
	if code, unsafe := archive.Code(err); unsafe {
		return fetch.Failed(code, "bundle: "+err.Error(), checks...), nil
	} else if err != nil {
		return admission.Resolution{}, err
	}
	if p.Version != "" {
		checks = append(checks, fetch.Compared(admission.CheckVersion, p.Version, inside, admission.ArtifactVersionMismatch))
	}
	res := admission.Resolution{Binding: a, Checks: checks}
	source := admission.Source{Locator: a.Locator, State: admission.SourceNone}
	if block != nil {
		source.State = admission.SourceFound
		if a.Bytes.Content, err = contentOf(blob, content); err != nil {
			return admission.Resolution{}, err
		}
		res.Evidence = []admission.Evidence{{MediaType: MediaType, Locator: a.Locator, Body: block}}
	}
	res.Sources = []admission.Source{source}
	return res, nil
}

// split finds the signature block at the end of a file and returns how many bytes
// are before it, and the block; nil if there is none. A block that is not whole,
// or that begins at two places, is an error: readers would disagree about what is
// signed.
func split(r io.ReaderAt, size int64) (content int64, block []byte, err error) {
	tail := make([]byte, min(size, maxBlock))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return 0, nil, err
	}
	if !bytes.HasSuffix(tail, []byte(footer)) {
		return size, nil, nil
	}
	// The nearest header is the one that the bundle's own tools take.
	i := bytes.LastIndex(tail, []byte(header))
	if i < 0 {
		return 0, nil, fmt.Errorf("a signature block ends here and does not begin in the last %d bytes", len(tail))
	}
	block = tail[i:]
	if _, err := signature(block); err != nil {
		return 0, nil, err
	}
	return size - int64(len(block)), block, nil
}

// signature is the PKCS#7 of a block.
func signature(block []byte) ([]byte, error) {
	const head = len(header) + 4
	switch {
	case len(block) < head+len(footer) || len(block) > maxBlock || !bytes.HasPrefix(block, []byte(header)) || !bytes.HasSuffix(block, []byte(footer)):
		return nil, errors.New("not a whole signature block")
	}
	n := int64(binary.LittleEndian.Uint32(block[len(header):]))
	if n != int64(len(block)-head-len(footer)) {
		return nil, fmt.Errorf("the signature block states %d bytes of signature and has %d", n, len(block)-head-len(footer))
	}
	return block[head : len(block)-len(footer)], nil
}

func contentOf(r io.ReaderAt, n int64) (*admission.ContentBinding, error) {
	h2, h5 := sha256.New(), sha512.New()
	if _, err := io.Copy(io.MultiWriter(h2, h5), io.NewSectionReader(r, 0, n)); err != nil {
		return nil, err
	}
	return &admission.ContentBinding{Size: n, Digests: admission.DigestSet{
		"sha256": hex.EncodeToString(h2.Sum(nil)), "sha512": hex.EncodeToString(h5.Sum(nil)),
	}}, nil
}

// manifest reads the version from the bundle's manifest.json.
func manifest(ctx context.Context, r io.ReaderAt, size int64, limits archive.Limits) (version string, err error) {
	const name = "manifest.json"
	files, err := archive.Zip(ctx, r, size, limits, func(n string) bool { return n == name })
	if err != nil {
		return "", err
	}
	b, ok := files[name]
	if !ok {
		return "", &archive.Error{Reason: archive.Malformed, Detail: "has no " + name}
	}
	f, twice := jsonrpc.Fields(b, "version")
	if f["version"] == nil || twice {
		return "", &archive.Error{Reason: archive.Malformed, Name: name, Detail: "has no version, or a member twice"}
	}
	return jsonrpc.Text(f["version"]), nil
}
