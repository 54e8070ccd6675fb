package fetch

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"counterfoil/ledger/admission"
)

// Blob is a file that was read. Reading from it needs no network. ReadAt is safe
// for concurrent use, Close is not.
type Blob struct {
	// Locator is what was asked for.
	Locator string
	// Answered is the URL that answered, without user, query and fragment; the
	// file's name for a local file.
	Answered string
	// Asked and Host are the hosts that were asked and that answered; they differ
	// after a redirect. Empty for a local file.
	Asked, Host string
	MediaType   string // as the server says, with parameters
	Size        int64
	Digests     admission.DigestSet // sha256 and sha512
	At          time.Time           // when the last byte had been read

	spool spool
	sums  sums
}

// ReadAt implements io.ReaderAt.
func (b *Blob) ReadAt(p []byte, off int64) (int, error) { return b.spool.ReadAt(p, off) }

// Close gives the bytes up.
func (b *Blob) Close() error { return b.spool.Close() }

// SourceCheck records who answered (ADM-21).
func (b *Blob) SourceCheck() (admission.Check, bool) {
	if b.Asked == "" {
		return admission.Check{}, false
	}
	c := admission.Check{ID: admission.CheckSource, State: admission.CheckPass, Expected: b.Asked, Got: b.Host}
	if b.Asked != b.Host {
		c.Detail = "redirected by the source"
	}
	return c, true
}

// copy appends the rest of a body, until limit bytes are there.
func (b *Blob) copy(ctx context.Context, r io.Reader, limit int64) error {
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := r.Read(buf)
		if int64(n) > limit-b.spool.n {
			return &Error{Kind: TooLarge, Detail: fmt.Sprintf("has more than %d bytes", limit)}
		}
		if n > 0 {
			b.sums.write(buf[:n])
			if err := b.spool.write(buf[:n]); err != nil {
				return &Error{Kind: Unavailable, Detail: "no room for it", Err: err}
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			// A server that sees us go may end its answer in good order, and that
			// end may still arrive: it is not that of the file.
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// restart forgets what was read.
func (b *Blob) restart() error {
	b.sums = sums{}
	return b.spool.reset()
}

type sums struct{ sha256, sha512 hash.Hash }

func (s *sums) write(p []byte) {
	s.start()
	s.sha256.Write(p)
	s.sha512.Write(p)
}

func (s *sums) start() {
	if s.sha256 == nil {
		s.sha256, s.sha512 = sha256.New(), sha512.New()
	}
}

func (s *sums) set() admission.DigestSet {
	s.start()
	return admission.DigestSet{"sha256": hex.EncodeToString(s.sha256.Sum(nil)), "sha512": hex.EncodeToString(s.sha512.Sum(nil))}
}

// inMemory is how many bytes of one file stay in memory: most packages fit.
const inMemory = 8 << 20

// spool keeps bytes, in memory up to a bound, then in a file without a name.
type spool struct {
	dir  string
	mem  []byte
	file *os.File
	n    int64
}

func (s *spool) write(p []byte) error {
	if s.file == nil && s.n+int64(len(p)) > inMemory {
		f, err := os.CreateTemp(s.dir, "counterfoil-fetch-*")
		if err != nil {
			return err
		}
		s.file = f
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
		if _, err := f.WriteAt(s.mem, 0); err != nil {
			return err
		}
		s.mem = nil
	}
	if s.file == nil {
		s.mem = append(s.mem, p...)
	} else if _, err := s.file.WriteAt(p, s.n); err != nil {
		return err
	}
	s.n += int64(len(p))
	return nil
}

func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, off)
	}
	if off < 0 || off >= int64(len(s.mem)) {
		return 0, io.EOF
	}
	n := copy(p, s.mem[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (s *spool) reset() error {
	s.n, s.mem = 0, s.mem[:0]
	if s.file != nil {
		return s.file.Truncate(0)
	}
	return nil
}

func (s *spool) Close() error {
	s.mem = nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
