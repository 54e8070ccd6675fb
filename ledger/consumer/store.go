package consumer

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"counterfoil/internal/durable"
)

// Store keeps the text of one cursor.
type Store interface {
	// Load returns what Save was given last, or an error that is an
	// [fs.ErrNotExist] if it never was called.
	Load() ([]byte, error)
	// Save replaces the text. From its return the new one survives what the store
	// promises; a crash before that leaves the old or the new one, never a mix.
	Save(cursor []byte) error
}

// File is the store in a file of that name, mode 0600. Save survives a power
// loss; the directory must exist. One follower at a time may use a file.
type File string

// Load reads at most MaxCursorBytes.
func (p File) Load() ([]byte, error) {
	f, err := os.Open(string(p))
	if err != nil {
		return nil, fmt.Errorf("read the cursor: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxCursorBytes+2))
	if err != nil {
		return nil, fmt.Errorf("read the cursor %s: %w", p, err)
	}
	return b, nil
}

// Save writes the cursor and a newline.
func (p File) Save(cursor []byte) error {
	if err := durable.WriteFile(string(p), append(append([]byte(nil), cursor...), '\n'), 0o600); err != nil {
		return fmt.Errorf("save the cursor: %w", err)
	}
	return nil
}

// Load reads the cursor of a store; nil if there is none yet.
func Load(s Store) (*Cursor, error) {
	b, err := s.Load()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ParseCursor(b)
}
