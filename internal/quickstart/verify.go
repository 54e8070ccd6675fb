package quickstart

import (
	"fmt"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// verify judges a bundle by a trust file, as the program counterfoil-verify
// does: with nothing but the bytes of the two.
func verify(bundle, trustFile []byte) (*receipt.Report, error) {
	file, err := trust.Parse(trustFile)
	if err != nil {
		return nil, fmt.Errorf("read the trust file: %w", err)
	}
	return receipt.Verify(bundle, file, receipt.Options{}), nil
}
