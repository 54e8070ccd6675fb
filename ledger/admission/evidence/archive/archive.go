// Package archive looks into package archives without unpacking them: it streams
// through gzipped tars and reads the directory of zips, and hands over the few
// small files that a caller wants.
//
// Every archive is judged whole: one path that leads out of it, one link, one
// name that two readers may take for different files, and none of it is used.
// Nothing is written anywhere, whatever the archive holds.
package archive

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"counterfoil/ledger/admission"
)

// Limits bound an archive. Zero values mean the defaults.
type Limits struct {
	Entries  int   // files and folders; default 50,000
	Unpacked int64 // bytes of all files; default 2 GiB
	// Ratio bounds the unpacked bytes by the packed ones, above the first 16 MiB;
	// default 200. A text that is no bomb reaches about 20.
	Ratio  int64
	Wanted int64 // bytes of a wanted file; default 1 MiB
}

const (
	defaultEntries  = 50_000
	defaultUnpacked = 2 << 30
	defaultRatio    = 200
	defaultWanted   = 1 << 20

	freeBytes   = 16 << 20 // unpacked bytes that no ratio forbids
	maxName     = 4096     // bytes of a name
	maxNames    = 16 << 20 // bytes of all names, which are kept
	maxDirBytes = 8 << 20  // bytes of a zip's directory
)

func (l Limits) fill() Limits {
	if l.Entries == 0 {
		l.Entries = defaultEntries
	}
	if l.Unpacked == 0 {
		l.Unpacked = defaultUnpacked
	}
	if l.Ratio == 0 {
		l.Ratio = defaultRatio
	}
	if l.Wanted == 0 {
		l.Wanted = defaultWanted
	}
	return l
}

// unpackedLimit is how many bytes an archive of this size may unpack to.
func (l Limits) unpackedLimit(packed int64) int64 {
	if packed > l.Unpacked/l.Ratio {
		return l.Unpacked
	}
	return min(l.Unpacked, max(freeBytes, packed*l.Ratio))
}

// Reason is why an archive was refused.
type Reason string

// Reasons of an [Error].
const (
	Malformed     Reason = "malformed"        // no archive of this kind, or a damaged one
	PathTraversal Reason = "path_traversal"   // a name leads out of the archive
	AmbiguousName Reason = "ambiguous_name"   // readers may take a name for different files
	Link          Reason = "link"             // a symbolic or hard link
	SpecialFile   Reason = "special_file"     // a device, pipe, or anything but files and folders
	Encrypted     Reason = "encrypted"        // a file that needs a password
	TooManyFiles  Reason = "too_many_files"   // more entries than the limit
	TooLarge      Reason = "too_large"        // unpacks to more than the limit
	Bomb          Reason = "compression_bomb" // unpacks to more than its size explains
	WantedTooBig  Reason = "file_too_large"   // a wanted file is larger than its limit
)

// Error says why an archive was refused.
type Error struct {
	Reason Reason
	Name   string // the entry, quoted where it is shown; may be empty
	Detail string
	Err    error // may be nil
}

func (e *Error) Error() string {
	s := string(e.Reason)
	if e.Name != "" {
		s += fmt.Sprintf(": %.200q", e.Name)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// Code is the admission's reason code for an error of this package, and whether
// it is one.
func Code(err error) (admission.Code, bool) {
	var e *Error
	if !errors.As(err, &e) {
		return "", false
	}
	switch e.Reason {
	case TooManyFiles, TooLarge, Bomb, WantedTooBig:
		return admission.ArtifactTooLarge, true
	}
	return admission.ArtifactUnsafe, true
}

// checker judges the entries of one archive.
type checker struct {
	limits   Limits
	unpacked int64 // limit for this archive
	want     func(name string) bool
	entries  int
	names    int64
	bytes    int64
	seen     map[string]bool // names, true for folders
	folded   map[string]bool // names in lower case, true for wanted ones
}

func newChecker(l Limits, packed int64, want func(name string) bool) *checker {
	return &checker{limits: l, unpacked: l.unpackedLimit(packed), want: want, seen: map[string]bool{}, folded: map[string]bool{}}
}

// entry judges one entry and returns its name without a slash at the end, and
// whether it is wanted.
func (c *checker) entry(name string, dir bool) (string, bool, error) {
	c.entries++
	c.names += int64(len(name))
	if c.entries > c.limits.Entries || c.names > maxNames {
		return "", false, &Error{Reason: TooManyFiles, Detail: fmt.Sprintf("more than %d entries, or %d bytes of names", c.limits.Entries, maxNames)}
	}
	if dir {
		name = strings.TrimSuffix(name, "/")
	}
	if err := checkName(name); err != nil {
		return "", false, err
	}
	wanted, folded := !dir && c.want(name), strings.ToLower(name)
	before, twice := c.seen[name]
	wantedBefore, similar := c.folded[folded]
	switch {
	case twice && !(before && dir):
		return "", false, &Error{Reason: AmbiguousName, Name: name, Detail: "stands in the archive twice"}
	case similar && !twice && (wanted || wantedBefore):
		// On some file systems one of the two replaces the other.
		return "", false, &Error{Reason: AmbiguousName, Name: name, Detail: "stands in the archive twice, in other letters"}
	}
	c.seen[name] = dir
	c.folded[folded] = wanted || wantedBefore
	return name, wanted, nil
}

// add counts bytes that the archive unpacks to.
func (c *checker) add(n int64) error {
	if n < 0 || n > c.unpacked-c.bytes {
		if c.unpacked < c.limits.Unpacked {
			return &Error{Reason: Bomb, Detail: fmt.Sprintf("unpacks to more than %d bytes, %d times its size", c.unpacked, c.limits.Ratio)}
		}
		return &Error{Reason: TooLarge, Detail: fmt.Sprintf("unpacks to more than %d bytes", c.unpacked)}
	}
	c.bytes += n
	return nil
}

// checkName wants a relative path in its one spelling.
func checkName(name string) error {
	fault := func(r Reason, detail string) error { return &Error{Reason: r, Name: name, Detail: detail} }
	switch {
	case name == "":
		return fault(AmbiguousName, "an entry without a name")
	case len(name) > maxName:
		return &Error{Reason: AmbiguousName, Name: name[:64], Detail: fmt.Sprintf("a name of %d bytes, limit %d", len(name), maxName)}
	case !utf8.ValidString(name):
		return fault(AmbiguousName, "is no UTF-8")
	case strings.HasPrefix(name, "/"), len(name) > 1 && name[1] == ':':
		return fault(PathTraversal, "is an absolute path")
	case strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fault(AmbiguousName, "has control characters")
	case strings.Contains(name, `\`):
		return fault(AmbiguousName, "has a backslash, which some systems take for a slash")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return fault(PathTraversal, "leads upwards")
		}
	}
	if path.Clean(name) != name {
		return fault(AmbiguousName, "is not spelled as "+path.Clean(name))
	}
	return nil
}
