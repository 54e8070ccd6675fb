package cli

import (
	"fmt"
	"os"
	"path/filepath"
)

// isLedger refuses a directory that no ledger was made in, so that a slip of --data
// leaves nothing behind.
func isLedger(data string) error {
	if _, err := os.Stat(filepath.Join(data, "ledger.json")); err != nil {
		return &hinted{fmt.Errorf("%s is not the data directory of a ledger", data), "name it with --data; a ledger makes one at its first start"}
	}
	return nil
}
