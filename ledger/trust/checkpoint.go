package trust

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrCheckpoint is what every refusal of [ParseCheckpoint] wraps.
var ErrCheckpoint = errors.New("malformed checkpoint")

// Checkpoint is the text of a signed checkpoint, as C2SP tlog-checkpoint
// defines it. Two checkpoints may be compared with ==.
type Checkpoint struct {
	// Origin names the log.
	Origin string
	// Size is the number of leaves.
	Size uint64
	// Root is the RFC 6962 root hash at Size.
	Root [sha256.Size]byte
	// Extension holds the extension lines as they stand in the text, each with
	// its newline; "" without any, as recommended.
	Extension string
}

// ParseCheckpoint reads the text of a note (Note.Text): origin, size in decimal
// without leading zeros, root as base64 of 32 bytes, and extension lines that
// are not empty, each line ended by a newline. It accepts what Text writes and
// nothing else.
func ParseCheckpoint(text string) (Checkpoint, error) {
	var c Checkpoint
	if !strings.HasSuffix(text, "\n") {
		return c, fmt.Errorf("%w: last line does not end in a newline", ErrCheckpoint)
	}
	lines := strings.SplitAfterN(text, "\n", 4) // the last part is what follows three lines
	if len(lines) < 4 {
		return c, fmt.Errorf("%w: %d lines, want origin, size and root", ErrCheckpoint, len(lines)-1)
	}
	origin, size, root := strings.TrimSuffix(lines[0], "\n"), strings.TrimSuffix(lines[1], "\n"), strings.TrimSuffix(lines[2], "\n")
	if origin == "" {
		return c, fmt.Errorf("%w: origin is empty", ErrCheckpoint)
	}
	n, err := strconv.ParseUint(size, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != size {
		return c, fmt.Errorf("%w: size %q is not a decimal number without leading zeros", ErrCheckpoint, clip(size))
	}
	hash, err := decode64(root)
	if err != nil {
		return c, fmt.Errorf("%w: root: %w", ErrCheckpoint, err)
	}
	if len(hash) != sha256.Size {
		return c, fmt.Errorf("%w: root has %d bytes, want %d", ErrCheckpoint, len(hash), sha256.Size)
	}
	extension := lines[3]
	if strings.HasPrefix(extension, "\n") || strings.Contains(extension, "\n\n") {
		return c, fmt.Errorf("%w: an extension line is empty", ErrCheckpoint)
	}
	c = Checkpoint{Origin: origin, Size: n, Extension: extension}
	copy(c.Root[:], hash)
	return c, nil
}

// Text is the text to be signed.
func (c Checkpoint) Text() string {
	return c.Origin + "\n" + strconv.FormatUint(c.Size, 10) + "\n" + b64.EncodeToString(c.Root[:]) + "\n" + c.Extension
}
