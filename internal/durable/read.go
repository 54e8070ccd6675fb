package durable

import (
	"fmt"
	"io"
	"os"
)

// ReadFile reads the file at path, which may have at most that many bytes: what
// a person names, or somebody else may have replaced, is bounded before memory is
// taken for it. The error names the file and, for one over the bound, the bound;
// for a file that is missing it is an [io/fs.ErrNotExist].
func ReadFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > most {
		return nil, fmt.Errorf("%s is over %d bytes", path, most)
	}
	return b, nil
}
