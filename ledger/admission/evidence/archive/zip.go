package archive

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// Zip reads the directory of a zip of size bytes and hands over the files that
// want accepts, by name. Errors are of type *[Error], or what ended ctx.
func Zip(ctx context.Context, r io.ReaderAt, size int64, limits Limits, want func(name string) bool) (map[string][]byte, error) {
	limits = limits.fill()
	if err := checkEnds(r, size); err != nil {
		return nil, err
	}
	zr, err := zip.NewReader(r, size)
	if err != nil {
		return nil, &Error{Reason: Malformed, Err: err}
	}
	c := newChecker(limits, size, want)
	files := map[string][]byte{}
	for _, f := range zr.File {
		if err := ctx.Err(); err != nil {
			return nil, context.Cause(ctx)
		}
		mode := f.Mode()
		name, wanted, err := c.entry(f.Name, mode.IsDir())
		switch {
		case err != nil:
			return nil, err
		case mode&fs.ModeSymlink != 0:
			return nil, &Error{Reason: Link, Name: f.Name}
		case mode.IsDir():
			continue
		case !mode.IsRegular():
			return nil, &Error{Reason: SpecialFile, Name: f.Name, Detail: "has mode " + mode.String()}
		case f.Flags&1 != 0:
			return nil, &Error{Reason: Encrypted, Name: f.Name}
		case f.UncompressedSize64 > 1<<62:
			return nil, &Error{Reason: Malformed, Name: f.Name, Detail: "has an impossible size"}
		}
		if err := c.add(int64(f.UncompressedSize64)); err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		if files[name], err = readZipped(f, limits.Wanted); err != nil {
			return nil, err
		}
	}
	return files, nil
}

func readZipped(f *zip.File, limit int64) ([]byte, error) {
	tooBig := func() error {
		return &Error{Reason: WantedTooBig, Name: f.Name, Detail: fmt.Sprintf("has more than %d bytes", limit)}
	}
	if f.UncompressedSize64 > uint64(limit) {
		return nil, tooBig()
	}
	rc, err := f.Open()
	if err != nil {
		return nil, &Error{Reason: Malformed, Name: f.Name, Err: err}
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, limit+1))
	switch {
	case int64(len(b)) > limit:
		return nil, tooBig()
	case err != nil:
		return nil, &Error{Reason: Malformed, Name: f.Name, Err: err}
	}
	return b, nil
}

// Parts of a zip's end record.
const (
	endLen        = 22
	maxCommentLen = 1<<16 - 1
)

// checkEnds wants a zip from the first byte to the last, with a directory that is
// small enough to be read into memory. A file that is a zip only to those who
// search for one may be something else to others.
func checkEnds(r io.ReaderAt, size int64) error {
	malformed := func(format string, args ...any) error {
		return &Error{Reason: Malformed, Detail: fmt.Sprintf(format, args...)}
	}
	if size < endLen {
		return malformed("%d bytes are no zip", size)
	}
	var head [4]byte
	if _, err := r.ReadAt(head[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return &Error{Reason: Malformed, Err: err}
	}
	if string(head[:]) != "PK\x03\x04" {
		return malformed("does not begin as a zip with files")
	}
	tail := make([]byte, min(size, endLen+maxCommentLen))
	if _, err := r.ReadAt(tail, size-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return &Error{Reason: Malformed, Err: err}
	}
	for i := len(tail) - endLen; i >= 0; i-- {
		if string(tail[i:i+4]) != "PK\x05\x06" {
			continue
		}
		end := tail[i:]
		comment := int(binary.LittleEndian.Uint16(end[20:]))
		if endLen+comment != len(end) {
			return malformed("does not end with its end record")
		}
		dirSize, dirAt := binary.LittleEndian.Uint32(end[12:]), binary.LittleEndian.Uint32(end[16:])
		if dirSize > maxDirBytes {
			return &Error{Reason: TooManyFiles, Detail: fmt.Sprintf("has a directory of %d bytes, limit %d", dirSize, maxDirBytes)}
		}
		// The directory lies right before the end record, or readers disagree
		// about where it is. A zip64 has its own record in between.
		if at := size - int64(len(end)) - int64(dirSize); int64(dirAt) != at {
			return malformed("has its directory at %d, expected %d (zip64 is not read)", dirAt, at)
		}
		return nil
	}
	return malformed("has no end record")
}
