package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"counterfoil/internal/durable"
	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/witness/audit"
)

// auditFlags are the flags of audit.
type auditFlags struct {
	trust, policy, tenant   string
	state, mirror, findings string
	compare                 string
	from, allowParked       uint64
	deadline, timeout       time.Duration
	maxAge                  time.Duration
	quiet, progress         bool
}

func (c *cli) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use:   "audit LOG_URL|DIR --trust FILE",
		Short: "Check a whole log from its public tiles",
		Long: `audit reads every leaf of a log and checks, with nothing but the trust file, that the tree
is the signed one, that every leaf is a canonical, signed and lawful event, and that the
log continues what was seen of it before (--state, --mirror). Each bad leaf is named.

LOG_URL is the prefix of the tiles, or the address of the ledger; DIR is a copy of the
tiles, or the data directory of a ledger. No token is needed, except for --compare.

Exit codes: 0 verified, 1 not verified, 2 could not be judged.`,
		Example: `  counterfoil audit https://ledger.example/log/ --trust trust.json
  counterfoil audit https://ledger.example --trust trust.json --state audit.json --mirror copy
  counterfoil audit copy --trust trust.json --json`,
		Args: want(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.audit(cmd.Context(), args[0], f)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.trust, "trust", "", "trust file, from the log's operator")
	fs.StringVar(&f.policy, "policy", "", "tlog-policy text: its witnesses count in place of the trust file's")
	fs.DurationVar(&f.maxAge, "max-age", 0, "fail a checkpoint that no quorum cosigned within this time")
	fs.StringVar(&f.state, "state", "", "file that remembers what was seen and judged, for the next run")
	fs.StringVar(&f.mirror, "mirror", "", "directory of a copy of the log to keep")
	fs.Uint64Var(&f.from, "from", 0, "first leaf to judge, where no state knows better")
	fs.StringVar(&f.compare, "compare", "", "URL of a ledger whose views are compared, with its token")
	fs.StringVar(&c.client.tokenFile, "token-file", "", "file with the bearer token for --compare (COUNTERFOIL_TOKEN_FILE; default "+filepath.Join(defaultData, tokenName)+")")
	fs.StringVar(&f.tenant, "tenant", "", "tenant of the log (default: that of its first signed event)")
	fs.Uint64Var(&f.allowParked, "allow-parked", 0, "accept up to this many leaves that do not count")
	fs.StringVar(&f.findings, "findings", "", "file for all findings, one JSON document a line")
	fs.DurationVar(&f.deadline, "deadline", 0, "end after this time, with 2 unless something is wrong already (default: none)")
	fs.DurationVar(&f.timeout, "timeout", 30*time.Second, "time limit of one request; it is made up to 4 times")
	fs.BoolVar(&f.progress, "progress", false, "show progress on stderr, also where that is no terminal")
	fs.BoolVar(&f.quiet, "quiet", false, "show no progress and no talk; the report stays, or why there is none")
	c.addJSONFlag(cmd)
	return cmd
}

// audit runs an audit and ends with its exit code.
func (c *cli) audit(ctx context.Context, log string, f auditFlags) error {
	if f.deadline < 0 || f.timeout <= 0 || f.maxAge < 0 {
		return usagef("write it like 30s or 5m", "a time limit must not be negative")
	}
	if f.state != "" && f.from > 0 {
		if _, err := os.Stat(f.state); err == nil {
			return usagef("leave out one of them", "--from says where to begin, and the state %s knows that", f.state)
		}
	}
	if f.deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, f.deadline, fmt.Errorf("the deadline of %s is over", f.deadline))
		defer cancel()
	}
	cfg := audit.Config{Tenant: f.tenant, From: f.from, State: f.state, Mirror: f.mirror, AllowParked: f.allowParked, MaxAge: f.maxAge, Now: time.Now}
	report, err := c.runAudit(ctx, log, f, &cfg)
	if report == nil {
		report = audit.NotJudgedReport(cfg.Trust, err)
	}
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted")
	}
	if unsaid := !c.json && report.ExitCode() == exitUsage; err != nil && (!f.quiet || unsaid) { // a report says it otherwise
		c.sayError(err)
	}
	if c.json {
		b, jerr := report.JSON()
		if jerr != nil {
			return jerr
		}
		err = c.printRaw(b)
	} else if report.Status != audit.NotJudged || report.Leaves.Read > 0 {
		err = c.showAudit(report)
	} else {
		err = nil
	}
	if err != nil { // a verdict that nobody got is none
		c.sayError(err)
		return exitCode(exitUsage)
	}
	if code := report.ExitCode(); code != 0 {
		return exitCode(code)
	}
	return nil
}

// runAudit opens what the flags name. Its report is nil if that failed.
func (c *cli) runAudit(ctx context.Context, log string, f auditFlags, cfg *audit.Config) (_ *audit.Report, err error) {
	if f.trust == "" {
		return nil, errors.New("no trust file (hint: name it with --trust FILE; get it from the log's operator, not from the log)")
	}
	raw, err := durable.ReadFile(f.trust, trust.MaxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("the trust file cannot be read: %w", err)
	}
	if cfg.Trust, err = trust.Parse(raw); err != nil {
		return nil, fmt.Errorf("%s: %w", f.trust, err)
	}
	if f.policy != "" {
		if raw, err = durable.ReadFile(f.policy, trust.MaxPolicyBytes); err != nil {
			return nil, fmt.Errorf("the policy cannot be read: %w", err)
		}
		if cfg.Policy, err = trust.ParsePolicy(raw); err != nil {
			return nil, fmt.Errorf("%s: %w", f.policy, err)
		}
	}
	if cfg.Source, cfg.Witnessed, err = openLog(ctx, log, f.timeout); err != nil {
		return nil, err
	}
	if f.compare != "" {
		c.client.server = f.compare
		cl, err := c.connect(false)
		if err != nil {
			return nil, err
		}
		defer cl.Close()
		cfg.Views = &serverViews{cl, f.timeout}
	}
	level := slog.LevelWarn
	if f.quiet {
		level = slog.LevelError + 1
	}
	cfg.Logger = slog.New(slog.NewTextHandler(c.env.Stderr, &slog.HandlerOptions{Level: level}))
	bar := newProgress(c.env.Stderr, (f.progress || isTerminal(c.env.Stderr)) && !f.quiet, time.Now)
	cfg.Progress = bar.show
	if f.findings != "" {
		file, err := newFindingsFile(f.findings)
		if err != nil {
			return nil, err
		}
		cfg.Each = file.add
		report, err := audit.Run(ctx, *cfg)
		bar.end()
		return report, errors.Join(err, file.close())
	}
	report, err := audit.Run(ctx, *cfg)
	bar.end()
	return report, err
}

// openLog finds the tiles: at the URL or in the directory that was named, or else
// under log/ there. Of a URL it also returns how the witnessed checkpoint is read,
// which the log may not have.
func openLog(ctx context.Context, log string, timeout time.Duration) (tiles.Source, func(context.Context) ([]byte, error), error) {
	if !strings.Contains(log, "://") {
		for _, dir := range []string{log, filepath.Join(log, "log")} {
			if _, err := os.Stat(filepath.Join(dir, "checkpoint")); err == nil {
				return tiles.Dir(dir), nil, nil
			}
		}
		return nil, nil, fmt.Errorf("%s holds no log: there is no checkpoint in it, nor in its directory log (hint: name a URL like https://ledger.example/log/, a copy of the tiles, or a data directory)", log)
	}
	client := &http.Client{
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: min(timeout, 10*time.Second)}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true},
	}
	base := strings.TrimSuffix(log, "/")
	var first error
	for _, u := range []string{base, base + "/log"} {
		src, err := tiles.HTTP(u, tiles.HTTPConfig{Client: client, Timeout: timeout})
		if err != nil {
			return nil, nil, err
		}
		data, _, err := src.Read(ctx, tiles.Path{Kind: tiles.Checkpoint})
		if err == nil {
			if _, err = trust.ParseNote(data); err == nil {
				return src, consumer.WitnessedHTTP(u, client), nil
			}
		}
		if first == nil {
			first = err
		}
		var status *tiles.StatusError
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, trust.ErrNote) && !errors.As(err, &status) || ctx.Err() != nil {
			return nil, nil, fmt.Errorf("read the checkpoint: %w", err)
		}
	}
	return nil, nil, fmt.Errorf("there is no checkpoint at %s, nor under log/ there: %w (hint: name the prefix of the log's tiles, like https://ledger.example/log/)", base, first)
}

// findingsFile holds all findings, one a line. It is put in place when it is whole.
type findingsFile struct {
	path string
	f    *os.File
	w    *bufio.Writer
}

func newFindingsFile(path string) (*findingsFile, error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return nil, fmt.Errorf("make the file of findings: %w", err)
	}
	return &findingsFile{path, f, bufio.NewWriter(f)}, nil
}

func (ff *findingsFile) add(f audit.Finding) error {
	b, err := json.Marshal(f)
	if err == nil {
		_, err = ff.w.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the file of findings: %w", err)
	}
	return nil
}

func (ff *findingsFile) close() error {
	err := errors.Join(ff.w.Flush(), ff.f.Chmod(0o644), ff.f.Sync(), ff.f.Close())
	if err == nil {
		err = os.Rename(ff.f.Name(), ff.path)
	}
	if err != nil {
		_ = os.Remove(ff.f.Name())
		return fmt.Errorf("write the file of findings: %w", err)
	}
	return nil
}
