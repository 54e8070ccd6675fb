// Counterfoil-verify verifies bundles of receipts, tlog-proofs and equivocation
// documents offline: with a file, a trust file that came another way, and nothing
// else. See package verifycmd for arguments and exit codes.
package main

import (
	"os"

	"counterfoil/internal/verifycmd"
)

func main() {
	os.Exit(verifycmd.Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
