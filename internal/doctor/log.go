package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"counterfoil/ledger/stream"
	"counterfoil/ledger/tlog"
	"counterfoil/ledger/trust"
)

// skew is how far in the future a file may have been written: clocks are set now and
// then by as much.
const skew = 2 * time.Minute

// clock compares the time of this machine with when the ledger last wrote. Times in
// events are this clock's.
func (d *look) clock() {
	var newest time.Time
	var of string
	for _, name := range []string{"log/checkpoint", "guard/record.json", "witness/cosigned.json", "ledger.json"} {
		if st, err := os.Stat(d.path(name)); err == nil && st.ModTime().After(newest) {
			newest, of = st.ModTime(), name
		}
	}
	if ahead := newest.Sub(d.cfg.Now); ahead > skew {
		d.not(Fails, "clock", fmt.Sprintf("%s was written %s in the future, at %s; it is %s now", of, ahead.Round(time.Second), newest.UTC().Format(time.RFC3339), d.cfg.Now.UTC().Format(time.RFC3339)), "timedatectl")
		return
	}
	d.ok("clock", d.cfg.Now.UTC().Format(time.RFC3339)+fmt.Sprintf(", %s after %s was written", max(0, d.cfg.Now.Sub(newest)).Round(time.Second), of))
}

// stopped looks whether a witness has stopped the log, now or before.
func (d *look) stopped() {
	if _, err := os.Stat(d.path("witness", "stopped.json")); err == nil {
		d.not(Fails, "witness state", d.path("witness", "stopped.json")+" is there: a witness showed a checkpoint that this log signed and does not hold", "cat "+d.path("witness", "stopped.json"))
		return
	}
	incidents, err := os.ReadDir(d.path("witness", "incidents"))
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		d.fail("witness state", err)
	case len(incidents) > 0:
		d.not(Warning, "witness state", fmt.Sprintf("%d incidents are kept", len(incidents)), "ls "+d.path("witness", "incidents"))
	default:
		d.ok("witness state", "no witness stopped the log, no incidents")
	}
}

func (d *look) space() {
	free, size, err := d.cfg.Space(d.cfg.Dir)
	if err != nil {
		d.fail("space", err)
		return
	}
	keep := min(d.cfg.DiskReserve, size/4)
	if detail := fmt.Sprintf("%d bytes free, %d are kept in reserve", free, keep); free < keep {
		d.not(Fails, "space", detail, "df -h "+d.cfg.Dir, "du -sh "+d.path("*"))
	} else {
		d.ok("space", detail)
	}
}

func (d *look) guard() {
	if !d.known {
		return
	}
	size, err := tlog.Inspect(d.path("log"), d.path("guard"), d.id.Origin)
	if d.size = size; err != nil {
		d.fail("guard", err)
		return
	}
	if size == 0 && d.id.Complete {
		if _, err := os.Stat(d.path("log")); err != nil {
			d.fail("guard", fmt.Errorf("the log is missing: %w", err))
			return
		}
	}
	d.ok("guard", fmt.Sprintf("log of %d leaves, as the guard has it or beyond", size))
}

// checkpoint reads the published one. It is signed anew at a start if it is missing or
// old, so neither is a failure.
func (d *look) checkpoint() {
	path := d.path("log", "checkpoint")
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if d.size > 0 {
			d.not(Warning, "checkpoint", fmt.Sprintf("no checkpoint over %d leaves", d.size), d.cfg.Program+" serve --data "+d.cfg.Dir)
		} else {
			d.ok("checkpoint", "nothing is published yet")
		}
		return
	}
	if err != nil {
		d.fail("checkpoint", err)
		return
	}
	if d.vkey == "" {
		d.not(Skipped, "checkpoint", "it cannot be verified without the log's key", "mend what fails above first")
		return
	}
	cp, err := signed(raw, d.vkey)
	switch {
	case err != nil:
		d.fail("checkpoint", fmt.Errorf("%s: %w", path, err))
	case cp.Size > d.size:
		d.not(Fails, "checkpoint", fmt.Sprintf("the checkpoint covers %d leaves, the log has %d", cp.Size, d.size))
	case cp.Size < d.size:
		d.not(Warning, "checkpoint", fmt.Sprintf("%d leaves are beyond the checkpoint of size %d", d.size-cp.Size, cp.Size), d.cfg.Program+" serve --data "+d.cfg.Dir)
	default:
		d.ok("checkpoint", fmt.Sprintf("signed, of size %d", cp.Size))
	}
}

func signed(raw []byte, vkey string) (trust.Checkpoint, error) {
	key, err := trust.ParseVerifierKey(vkey)
	if err != nil {
		return trust.Checkpoint{}, err
	}
	n, err := trust.ParseNote(bytes.Clone(raw))
	if err != nil {
		return trust.Checkpoint{}, err
	}
	if _, err := n.VerifyBy(key); err != nil {
		return trust.Checkpoint{}, err
	}
	return trust.ParseCheckpoint(n.Text)
}

func (d *look) vault() {
	entries, err := os.ReadDir(d.path("vault"))
	if d.known && d.id.Complete && len(entries) == 0 {
		d.not(Fails, "vault", fmt.Sprintf("%s is missing or empty (%v): it holds the keys of all attempts", d.path("vault"), err), d.cfg.Program+" restore --help")
		return
	}
	d.ok("vault", "is there")
}

// address tries to listen where a start would.
func (d *look) address() {
	if d.cfg.Listen == "" {
		return
	}
	ln, err := net.Listen("tcp", d.cfg.Listen)
	if err != nil {
		d.fail("address", err, "ss -ltnp", d.cfg.Program+" serve --listen 127.0.0.1:0")
		return
	}
	_ = ln.Close()
	d.ok("address", d.cfg.Listen+" is free")
}

// natsLimit bounds what is asked of an external NATS.
const natsLimit = 5 * time.Second

func (d *look) nats(ctx context.Context) {
	if d.cfg.NATS == "" || !d.known {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, natsLimit)
	defer cancel()
	urls, err := stream.WithPassword(d.cfg.NATS, d.cfg.NATSPasswordFile)
	if err != nil {
		d.fail("nats", err)
		return
	}
	st, found, err := stream.Look(ctx, stream.Config{URL: urls, CredsFile: d.cfg.NATSCreds, Tenant: d.id.Tenant, Origin: d.id.Origin, Fingerprint: d.tenant, AckTimeout: natsLimit})
	var config *stream.ConfigError
	switch {
	case errors.As(err, &config):
		d.fail("nats", err, "nats stream info "+stream.DefaultName)
	case err != nil:
		d.fail("nats", err, "nats server check connection")
	case !found:
		d.ok("nats", "reached; the stream is made at the next start")
	case !d.running && st.Last < d.size:
		d.not(Warning, "nats", fmt.Sprintf("the stream ends at %d, the log has %d leaves: a start heals it from the log", st.Last, d.size), d.cfg.Program+" serve --data "+d.cfg.Dir+" --nats …")
	default:
		d.ok("nats", fmt.Sprintf("reached; the stream is as the ledger needs it and ends at %d", st.Last))
	}
}
