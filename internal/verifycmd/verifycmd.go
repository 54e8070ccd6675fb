// Package verifycmd is the command that verifies files offline: bundles,
// tlog-proofs and equivocation documents. The program counterfoil-verify is this
// and nothing else, and counterfoil verify takes the same arguments. It reads
// files and writes to what it is given; it opens no network connection and starts
// no program (BND-06).
//
// The report is on stdout, for people or, with --json, as exactly one JSON
// document (schema counterfoil.verification.v1, of an equivocation document
// counterfoil.equivocation-verification.v1). Talk is on stderr: why something
// could not be judged, and hints. Exit codes:
//
//	0  verified; of an equivocation document: the log signed two histories
//	1  not verified: at least one check failed; the document does not show that
//	2  could not be judged: wrong usage, no trust file, unreadable, nothing in it,
//	   not logged, a checkpoint file that is none, or an age is asked for that no quorum can tell
//
//	args.go      flags
//	text.go      the report for people
//	evidence.go  equivocation documents
//	export.go    the receipts of a bundle as tlog-proofs
package verifycmd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

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

// report is an answer: that of a bundle or proof, or of an equivocation document.
type report interface {
	ExitCode() int
	JSON() ([]byte, error)
}

// verify reads the files and judges. What cannot be read is in the report, too.
func (c *command) verify() report {
	o := &c.opts
	if o.trust == "" && o.policy == "" {
		return receipt.Verify(nil, nil, receipt.Options{})
	}
	file, policy, none := c.trusted()
	if none != nil {
		return none
	}
	opts := receipt.Options{MinSize: o.minSize, AllowPartial: o.partial, Policy: policy, MaxAge: o.maxAge, Now: o.now}
	if o.maxAge > 0 && o.now.IsZero() {
		opts.Now = time.Now()
	}
	var err error
	if o.checkpoint != "" {
		if opts.Newest, err = c.read(o.checkpoint, trust.MaxNoteBytes); err != nil {
			return receipt.NotJudgedReport(receipt.CheckCompleteness, "the checkpoint cannot be read: "+err.Error())
		}
		if err := isCheckpoint(opts.Newest); err != nil {
			c.next = "name the file of a signed checkpoint, as GET /log/checkpoint answers it, with --checkpoint"
			return receipt.NotJudgedReport(receipt.CheckCompleteness, o.checkpoint+": "+err.Error())
		}
	}
	raw, err := c.read(o.file, receipt.MaxBundleBytes)
	if err != nil {
		c.next = "name the file of a bundle, as counterfoil bundle --out wrote it"
		return receipt.NotJudgedReport(receipt.CheckFormat, "the input cannot be read: "+err.Error())
	}
	switch {
	case looksLikeEvidence(raw):
		return c.evidence(raw, file, policy)
	case file == nil:
		c.next = "pass the trust file as well, with --trust FILE"
		return receipt.NotJudgedReport(receipt.CheckTrust, "a policy names logs and witnesses, but no event keys: there is no trust file")
	case o.leaf != "":
		leaf, err := c.read(o.leaf, maxLeafFile)
		if err != nil {
			c.next = "name the file of the leaf with --leaf"
			return receipt.NotJudgedReport(receipt.CheckFormat, "the leaf cannot be read: "+err.Error())
		}
		return receipt.VerifyTlogProof(raw, leaf, file, opts)
	case bytes.HasPrefix(raw, []byte("c2sp.org/tlog-proof@")):
		c.next = "the leaf is the file beside it that --tlog-proof wrote, or the member record of the event's line of counterfoil tail --json, byte for byte, without a line end"
		return receipt.NotJudgedReport(receipt.CheckFormat, "a tlog-proof does not hold its leaf: name the file of the leaf with --leaf")
	}
	r := receipt.Verify(raw, file, opts)
	if o.tlogProof != "" && r.Status == receipt.Verified {
		n, err := exportProofs(o.tlogProof, raw)
		if err != nil {
			c.next = "name a directory that can be written to with --tlog-proof"
			return receipt.NotJudgedReport(receipt.CheckFormat, "the bundle verifies, but its tlog-proofs could not be written: "+err.Error())
		}
		fmt.Fprintf(c.stderr, "wrote %s with their leaves to %s\n", count(n, "tlog-proof"), clean(o.tlogProof))
	}
	return r
}

// isCheckpoint says why a text is not in the form of a checkpoint. Who signed it
// is judged with the bundle.
func isCheckpoint(raw []byte) error {
	n, err := trust.ParseNote(raw)
	if err == nil {
		_, err = trust.ParseCheckpoint(n.Text)
	}
	return err
}

// trusted reads the trust file and the policy, of which at least one is given;
// none says why they cannot be used.
func (c *command) trusted() (file *trust.File, policy *trust.Policy, none *receipt.Report) {
	if path := c.opts.trust; path != "" {
		raw, err := c.read(path, trust.MaxFileBytes)
		if err != nil {
			return nil, nil, receipt.NotJudgedReport(receipt.CheckTrust, "the trust file cannot be read: "+err.Error())
		}
		if file, err = trust.Parse(raw); err != nil {
			if _, notPolicy := trust.ParsePolicy(raw); notPolicy == nil {
				c.next = "it is a tlog-policy: pass it with --policy FILE, beside the trust file"
			}
			return nil, nil, receipt.NotJudgedReport(receipt.CheckTrust, path+": "+err.Error())
		}
	}
	if path := c.opts.policy; path != "" {
		raw, err := c.read(path, trust.MaxPolicyBytes)
		if err != nil {
			c.next = "name the file of the tlog-policy with --policy"
			return nil, nil, receipt.NotJudgedReport(receipt.CheckTrust, "the policy cannot be read: "+err.Error())
		}
		if policy, err = trust.ParsePolicy(raw); err != nil {
			c.next = "correct the line; the text is that of C2SP tlog-policy"
			if _, notTrust := trust.Parse(raw); notTrust == nil {
				c.next = "it is a trust file: pass it with --trust FILE"
			}
			return nil, nil, receipt.NotJudgedReport(receipt.CheckTrust, path+": "+err.Error())
		}
	}
	if file != nil && policy != nil {
		if err := file.CheckPolicy(policy); err != nil {
			c.next = "the policy replaces the log and witness part of the trust file: bring the two into line, or leave --policy out"
			return nil, nil, receipt.NotJudgedReport(receipt.CheckTrust, "trust file and policy contradict each other: "+err.Error())
		}
	}
	return file, policy, nil
}

// evidence judges an equivocation document. What is asked of bundles alone is
// not passed over in silence.
func (c *command) evidence(raw []byte, file *trust.File, policy *trust.Policy) report {
	o := &c.opts
	if o.leaf != "" || o.minSize > 0 || o.checkpoint != "" || o.partial || o.maxAge > 0 || o.tlogProof != "" {
		c.next = "verify the document with --trust or --policy alone"
		return receipt.NotJudgedReport(receipt.CheckFormat, "this is an equivocation document: --leaf, --min-size, --checkpoint, --partial, --max-age and --tlog-proof say nothing about it")
	}
	if policy == nil {
		policy = file.Policy()
	}
	return judgeEvidence(raw, policy)
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
func (c *command) answer(r report) int {
	var out []byte
	switch r := r.(type) {
	case *receipt.Report:
		c.talk(r)
		out = c.text(r)
	case *evidenceReport:
		c.evidenceTalk(r)
		out = c.evidenceText(r)
	}
	if r.ExitCode() == notJudged {
		out = nil // there is no verdict; stderr says why
	}
	if c.opts.json {
		var err error
		if out, err = r.JSON(); err != nil {
			return c.writeError(err)
		}
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
