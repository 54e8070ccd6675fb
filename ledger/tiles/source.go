package tiles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// Source yields the stored bytes of tiles and bundles. It is safe for
// concurrent use.
//
// Where p is partial and not stored under exactly its width (a log deletes
// partial tiles once the full one is there), Read may answer with a wider
// version of the same tile and says with got what it found. It checks nothing
// but that the answer is not absurdly long. An error for something that is not
// there is an [fs.ErrNotExist]; the caller decides about trying again.
type Source interface {
	Read(ctx context.Context, p Path) (data []byte, got Path, err error)
}

// Dir is the source that reads the log stored in a directory.
func Dir(dir string) Source { return dirSource{dir} }

type dirSource struct{ dir string }

func (d dirSource) Read(ctx context.Context, p Path) ([]byte, Path, error) {
	if err := ctx.Err(); err != nil {
		return nil, p, err
	}
	data, err := d.file(p)
	if err == nil || p.Full() || p.Kind == Checkpoint || !errors.Is(err, fs.ErrNotExist) {
		return data, p, err
	}
	missing := err
	// The full tile is looked for again at the end: the log may write it and
	// delete the partial ones while we look.
	for range 2 {
		full := p.with(Width)
		if data, err = d.file(full); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return data, full, err
		}
		wider, ok := d.wider(p)
		if !ok {
			continue
		}
		if data, err = d.file(wider); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return data, wider, err
		}
	}
	return nil, p, fmt.Errorf("%w (nor is a wider version of it there)", missing)
}

// wider finds the narrowest stored partial version of p that covers it.
func (d dirSource) wider(p Path) (Path, bool) {
	names, err := os.ReadDir(filepath.Join(d.dir, filepath.FromSlash(p.with(Width).String())+".p"))
	if err != nil {
		return p, false
	}
	best := Width
	for _, n := range names {
		w, err := strconv.Atoi(n.Name())
		if err == nil && w > p.Width && w < best && strconv.Itoa(w) == n.Name() {
			best = w
		}
	}
	return p.with(best), best < Width
}

func (d dirSource) file(p Path) ([]byte, error) {
	f, err := os.Open(filepath.Join(d.dir, filepath.FromSlash(p.String())))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	defer f.Close()
	most := p.most()
	fi, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	if fi.Size() > most {
		return nil, &DamageError{Path: p, Problem: fmt.Sprintf("the file has %d bytes, expected at most %d", fi.Size(), most)}
	}
	data := make([]byte, fi.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		return nil, fmt.Errorf("read %s: %w", p, err)
	}
	return data, nil
}
