// Package verifycmd is the command that verifies bundles offline. The program
// counterfoil-verify is this and nothing else, and counterfoil verify takes the
// same arguments. It reads files and writes to what it is given; it opens no
// network connection and starts no program (BND-06).
//
// The report is on stdout, for people or, with --json, as exactly one JSON
// document (schema counterfoil.verification.v1). Talk is on stderr: why something
// could not be judged, and hints. Exit codes:
//
//	0  verified
//	1  not verified: at least one check failed
//	2  could not be judged: wrong usage, no trust file, unreadable, nothing in it,
//	   or not logged
package verifycmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
)

// notJudged is the exit code when there is no verdict.
const notJudged = 2

// Run verifies as the arguments say (without the program's name) and returns the
// exit code.
func Run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parseArgs(args)
	c := &command{opts: opts, stdin: stdin, stdout: stdout, stderr: stderr}
	switch {
	case err != nil:
		return c.usageError(err)
	case opts.help:
		if _, err := io.WriteString(stdout, usage); err != nil {
			return c.writeError(err)
		}
		return 0
	}
	if opts.version {
		if _, err := fmt.Fprintf(stdout, "counterfoil-verify %s\n", version()); err != nil {
			return c.writeError(err)
		}
		return 0
	}
	return c.answer(c.verify())
}

// version is what the build knows of itself.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

type command struct {
	opts   options
	next   string // what to do next, where the report does not tell
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// verify reads the files and judges. What cannot be read is in the report, too.
func (c *command) verify() *receipt.Report {
	if c.opts.trust == "" {
		return receipt.Verify(nil, nil, receipt.Options{})
	}
	raw, err := c.read(c.opts.trust, trust.MaxFileBytes)
	if err != nil {
		return receipt.NotJudgedReport(receipt.CheckTrust, "the trust file cannot be read: "+err.Error())
	}
	file, err := trust.Parse(raw)
	if err != nil {
		return receipt.NotJudgedReport(receipt.CheckTrust, c.opts.trust+": "+err.Error())
	}
	opts := receipt.Options{MinSize: c.opts.minSize, AllowPartial: c.opts.partial}
	if c.opts.checkpoint != "" {
		if opts.Newest, err = c.read(c.opts.checkpoint, trust.MaxNoteBytes); err != nil {
			return receipt.NotJudgedReport(receipt.CheckCompleteness, "the checkpoint cannot be read: "+err.Error())
		}
		if opts.Newest == nil {
			opts.Newest = []byte{} // an empty file is no checkpoint, and is said to be none
		}
	}
	if raw, err = c.read(c.opts.file, receipt.MaxBundleBytes); err != nil {
		c.next = "name the file of a bundle, as counterfoil bundle --out wrote it"
		return receipt.NotJudgedReport(receipt.CheckFormat, "the input cannot be read: "+err.Error())
	}
	if c.opts.leaf == "" {
		if bytes.HasPrefix(raw, []byte("c2sp.org/tlog-proof@")) {
			c.next = "the leaf is the member record of the event's line of counterfoil tail --json, byte for byte, without a line end"
			return receipt.NotJudgedReport(receipt.CheckFormat, "a tlog-proof does not hold its leaf: name the file of the leaf with --leaf")
		}
		return receipt.Verify(raw, file, opts)
	}
	leaf, err := c.read(c.opts.leaf, maxLeafFile)
	if err != nil {
		c.next = "name the file of the leaf with --leaf"
		return receipt.NotJudgedReport(receipt.CheckFormat, "the leaf cannot be read: "+err.Error())
	}
	return receipt.VerifyTlogProof(raw, leaf, file, opts)
}

// maxLeafFile is above the largest leaf, so that a longer one is refused for
// what it is.
const maxLeafFile = 1 << 20

// read reads at most limit bytes of a file; "-" is stdin.
func (c *command) read(path string, limit int64) ([]byte, error) {
	from := c.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // nothing was written
		if st, err := f.Stat(); err == nil && st.IsDir() {
			return nil, fmt.Errorf("%s is a directory", path)
		}
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is over %d bytes", path, limit)
	}
	return b, nil
}

// answer writes the report and returns its exit code.
func (c *command) answer(r *receipt.Report) int {
	c.talk(r)
	var out []byte
	if c.opts.json {
		var err error
		if out, err = r.JSON(); err != nil {
			return c.writeError(err)
		}
	} else if r.Status != receipt.NotJudged {
		out = c.text(r)
	}
	if _, err := c.stdout.Write(out); err != nil {
		return c.writeError(err)
	}
	return r.ExitCode()
}

// usageError answers wrong arguments. A caller that asked for JSON gets a
// document all the same.
func (c *command) usageError(err error) int {
	fmt.Fprintf(c.stderr, "error: %s\nhint: counterfoil-verify --help lists the arguments\n", clean(err.Error()))
	if c.opts.json {
		r := receipt.NotJudgedReport(receipt.CheckTrust, "wrong usage: "+err.Error())
		out, err := r.JSON()
		if err == nil {
			_, err = c.stdout.Write(out)
		}
		if err != nil {
			return c.writeError(err)
		}
	}
	return notJudged
}

// writeError: a verdict that nobody got is none.
func (c *command) writeError(err error) int {
	fmt.Fprintf(c.stderr, "error: cannot write the report: %s\n", clean(err.Error()))
	return notJudged
}

var errFile = errors.New("name one bundle file, or - for stdin")
