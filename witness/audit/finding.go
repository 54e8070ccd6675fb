package audit

import (
	"fmt"
	"strings"

	"counterfoil/ledger/excerpt"
)

// Kind is what is wrong. Kinds are part of the public contract and only ever
// added.
type Kind string

// Findings about the checkpoint and about history.
const (
	LogSignature Kind = "log_signature" // no valid signature of the trusted log key
	Cosignature  Kind = "cosignature"   // a line of a trusted witness that does not verify
	Quorum       Kind = "quorum"        // too few cosignatures
	Stale        Kind = "stale"         // no quorum cosigned it lately
	Forked       Kind = "forked"        // two roots signed for one size
	RolledBack   Kind = "rolled_back"   // a smaller tree than one that was seen
	Rewritten    Kind = "rewritten"     // the tree does not begin with one that was seen
)

// Findings about the tree.
const (
	RootMismatch  Kind = "root_mismatch"  // tiles and leaves do not give the signed root
	DamagedTile   Kind = "damaged_tile"   // hashes of a tile are not those of the tree
	MissingTile   Kind = "missing_tile"   // a hash tile is not served
	DamagedBundle Kind = "damaged_bundle" // a bundle's form is wrong though its leaves are right
	DamagedLeaf   Kind = "damaged_leaf"   // the bytes of a leaf are not those of the tree
	MirrorDiffers Kind = "mirror_differs" // a file of the mirror is not what the log holds
)

// Findings about leaves that are in the tree and do not count. The ledger's views
// park them for the same reasons (registries.md).
const (
	Unparseable   Kind = "unparseable"
	WrongOrigin   Kind = "wrong_origin"
	WrongTenant   Kind = "wrong_tenant"
	BadSignature  Kind = "bad_signature" // Code says which
	Unlawful      Kind = "unlawful"      // Code is the rule that is broken
	DuplicateLeaf Kind = "duplicate_leaf"
)

// Findings about a live server's views.
const (
	ViewDiffers Kind = "view_differs" // an attempt is not in the state that its leaves give
	ViewMissing Kind = "view_missing" // an attempt of the log that the server does not list
	ViewExtra   Kind = "view_extra"   // an attempt that the log does not have
)

// Parked reports whether a finding of the kind is a leaf that is in the tree and
// does not count.
func (k Kind) Parked() bool {
	switch k {
	case Unparseable, WrongOrigin, WrongTenant, BadSignature, Unlawful, DuplicateLeaf:
		return true
	}
	return false
}

// Finding is one thing that is wrong.
type Finding struct {
	Kind Kind `json:"kind"`
	// Code says more of a kind: the rule that an unlawful event breaks
	// (registries.md), or why a signature does not count.
	Code string `json:"code,omitempty"`
	// LeafIndex is the leaf, if it is about one.
	LeafIndex *uint64 `json:"leafIndex,omitempty"`
	// Path is the file of the log or of the mirror, or of what was kept.
	Path string `json:"path,omitempty"`
	// EventID and AttemptID are of the leaf's event, as far as it could be read.
	EventID   string `json:"eventId,omitempty"`
	AttemptID string `json:"attemptId,omitempty"`
	// Expected and Got are what was compared.
	Expected string `json:"expected,omitempty"`
	Got      string `json:"got,omitempty"`
	// Detail is a sentence for people.
	Detail string `json:"detail"`
}

// maxText bounds what a finding repeats of its cause.
const maxText = 512

func clip(s string) string { return excerpt.Cut(strings.ToValidUTF8(s, "\uFFFD"), maxText) }

func atLeaf(k Kind, index uint64, expected, got, detail string) Finding {
	return Finding{Kind: k, LeafIndex: &index, Expected: clip(expected), Got: clip(got), Detail: clip(detail)}
}

func about(k Kind, path, expected, got, format string, args ...any) Finding {
	return Finding{Kind: k, Path: path, Expected: clip(expected), Got: clip(got), Detail: clip(fmt.Sprintf(format, args...))}
}
