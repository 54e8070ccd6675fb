package mcp

import (
	"fmt"

	"counterfoil/ledger/trust"

	"counterfoil/internal/durable"
)

// TrustFile reads an operator's trust file, at once and then at every call of
// what it returns, so that a file that is replaced counts from then on. Without
// a path there is no trust file.
func TrustFile(path string) (func() (*trust.File, error), error) {
	if path == "" {
		return nil, nil
	}
	read := func() (*trust.File, error) {
		b, err := durable.ReadFile(path, trust.MaxFileBytes)
		if err != nil {
			return nil, fmt.Errorf("trust file: %w", err)
		}
		file, err := trust.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("trust file %s: %w", path, err)
		}
		return file, nil
	}
	_, err := read()
	return read, err
}
