package cli

import (
	"fmt"
	"io"
	"os"

	"counterfoil/ledger/client"
)

// isNull reports whether a file is the null device, which is no terminal.
func isNull(st os.FileInfo) bool {
	null, err := os.Stat(os.DevNull)
	return err == nil && os.SameFile(st, null)
}

// readBody reads the body of a begin or append from stdin.
func (c *cli) readBody(what string) ([]byte, error) {
	if f, ok := c.env.Stdin.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 && !isNull(st) {
			c.say("reading the body of %s from standard input", what)
		}
	}
	b, err := io.ReadAll(io.LimitReader(c.env.Stdin, client.MaxRequestBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if len(b) > client.MaxRequestBytes {
		return nil, &client.Error{Code: "too_large", Message: fmt.Sprintf("the body is over %d bytes", client.MaxRequestBytes),
			Hint: "private values may have up to 16 MiB each; send a digest instead of the whole value"}
	}
	return b, nil
}
