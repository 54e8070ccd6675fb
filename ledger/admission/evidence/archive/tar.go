package archive

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
)

// TarGz streams through a gzipped tar of size packed bytes and hands over the
// files that want accepts, by name. Errors are of type *[Error], or what ended ctx.
func TarGz(ctx context.Context, r io.ReaderAt, packed int64, limits Limits, want func(name string) bool) (map[string][]byte, error) {
	limits = limits.fill()
	c := newChecker(limits, packed, want)
	malformed := func(err error) error {
		var own *Error
		if errors.As(err, &own) || ctx.Err() != nil {
			return err
		}
		return &Error{Reason: Malformed, Err: err}
	}
	zr, err := gzip.NewReader(bufio.NewReaderSize(io.NewSectionReader(r, 0, packed), 64<<10))
	if err != nil {
		return nil, malformed(fmt.Errorf("no gzip: %w", err))
	}
	// Everything that is unpacked is counted here: headers, padding and what
	// follows the archive too.
	in := &counted{ctx: ctx, r: zr, c: c}
	files := map[string][]byte{}
	tr := tar.NewReader(in)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, malformed(err)
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue // settings for the files that follow, of no consequence here
		}
		name, wanted, err := c.entry(h.Name, h.Typeflag == tar.TypeDir)
		if err != nil {
			return nil, err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			continue
		case tar.TypeReg:
		case tar.TypeLink, tar.TypeSymlink:
			return nil, &Error{Reason: Link, Name: h.Name, Detail: fmt.Sprintf("leads to %.200q", h.Linkname)}
		default:
			return nil, &Error{Reason: SpecialFile, Name: h.Name, Detail: fmt.Sprintf("has type %q", h.Typeflag)}
		}
		if !wanted {
			continue
		}
		if h.Size > limits.Wanted {
			return nil, &Error{Reason: WantedTooBig, Name: h.Name, Detail: fmt.Sprintf("has %d bytes, limit %d", h.Size, limits.Wanted)}
		}
		b, err := io.ReadAll(io.LimitReader(tr, limits.Wanted+1))
		if err != nil {
			return nil, malformed(err)
		}
		if int64(len(b)) > limits.Wanted { // a sparse file
			return nil, &Error{Reason: WantedTooBig, Name: h.Name, Detail: fmt.Sprintf("has more than %d bytes", limits.Wanted)}
		}
		files[name] = b
	}
	if err := onlyPadding(in); err != nil {
		return nil, malformed(err)
	}
	return files, nil
}

// onlyPadding reads what follows the end of the archive: some readers go on
// there, so files could hide in it. Reading to the end also checks gzip's sum.
func onlyPadding(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		for _, b := range buf[:n] {
			if b != 0 {
				return &Error{Reason: AmbiguousName, Detail: "bytes follow the end of the archive"}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// counted counts what is read, and stops when the context ends.
type counted struct {
	ctx context.Context
	r   io.Reader
	c   *checker
}

func (r *counted) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, context.Cause(r.ctx)
	}
	n, err := r.r.Read(p)
	if over := r.c.add(int64(n)); over != nil {
		return 0, over
	}
	return n, err
}
