package mcp

import (
	"fmt"
	"io"
	"os"

	"counterfoil/ledger/trust"
)

// TrustFile reads an operator's trust file, at once and then at every call of
// what it returns, so that a file that is replaced counts from then on. Without
// a path there is no trust file.
func TrustFile(path string) (func() (*trust.File, error), error) {
	if path == "" {
		return nil, nil
	}
	read := func() (*trust.File, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("trust file: %w", err)
		}
		defer f.Close() //nolint:errcheck // nothing was written
		b, err := io.ReadAll(io.LimitReader(f, trust.MaxFileBytes+1))
		if err != nil {
			return nil, fmt.Errorf("trust file: %w", err)
		}
		file, err := trust.Parse(b) // refuses what is over its bound
		if err != nil {
			return nil, fmt.Errorf("trust file %s: %w", path, err)
		}
		return file, nil
	}
	_, err := read()
	return read, err
}
