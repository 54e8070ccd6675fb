// Package quickstart shows a newcomer the whole way of an event: recorded MCP
// sessions become receipts with proofs, bundles and a trust file, verified
// offline, and a short story tells it. It prints names, counts and ids, never a
// private value.
//
// Running it again on the same ledger adds nothing: the sessions are known by
// their content.
package quickstart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"counterfoil/internal/durable"
	"counterfoil/internal/session"
	"counterfoil/ledger/client"
	"counterfoil/ledger/receipt"
)

// Config says what to show, and where.
type Config struct {
	Client *client.Client
	// Data is the data directory, as the user named it: DIR/bundles and
	// DIR/trust.json are written.
	Data string
	// Sessions holds the recordings, NAME.jsonl in its top folder.
	Sessions fs.FS
	// Out takes the story.
	Out io.Writer
	// Program is how the user calls the program, ClientFlags what a client
	// command needs to find this ledger, ServeFlags what serve needs to be found
	// there: with a space before each flag, quoted for a shell.
	Program, ClientFlags, ServeFlags string
	// Stopping says that the ledger stops after the story.
	Stopping bool
}

// shown is one session on its way.
type shown struct {
	name   string // without .jsonl
	sum    *session.Summary
	bundle string // path
	report *receipt.Report
}

// Run does everything and tells it. What it writes is durable when it returns.
func Run(ctx context.Context, cfg Config) error {
	names, err := fs.Glob(cfg.Sessions, "*.jsonl")
	if err != nil {
		return fmt.Errorf("find the recorded sessions: %w", err)
	}
	all := make([]*shown, len(names))
	for i, name := range names {
		all[i] = &shown{name: strings.TrimSuffix(name, ".jsonl"), bundle: filepath.Join(cfg.Data, "bundles", strings.TrimSuffix(name, ".jsonl")+".bundle.json")}
		if all[i].sum, err = record(ctx, cfg, name); err != nil {
			return fmt.Errorf("record %s: %w", name, err)
		}
	}
	status, err := cfg.Client.Status(ctx)
	if err != nil {
		return fmt.Errorf("ask the ledger for its size: %w", err)
	}
	trustPath := filepath.Join(cfg.Data, "trust.json")
	if err := export(ctx, cfg, all, trustPath); err != nil {
		return err
	}
	for _, s := range all {
		if s.report, err = verifyFiles(s.bundle, trustPath); err != nil {
			return err
		}
	}
	var b bytes.Buffer
	tell(&b, cfg, all, &status.Value, trustPath)
	if _, err := cfg.Out.Write(b.Bytes()); err != nil {
		return fmt.Errorf("tell the story: %w", err)
	}
	for _, s := range all {
		if s.report.Status != receipt.Verified {
			return fmt.Errorf("%s: %s", s.bundle, s.report.Status)
		}
	}
	return nil
}

// record records one session and waits until its last event is published; the
// log has one order, so all before it are too.
func record(ctx context.Context, cfg Config, name string) (*session.Summary, error) {
	raw, err := fs.ReadFile(cfg.Sessions, name)
	if err != nil {
		return nil, err
	}
	r, err := session.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return session.Record(ctx, cfg.Client, r, client.Published)
}

// export writes the bundles and the trust file.
func export(ctx context.Context, cfg Config, all []*shown, trustPath string) error {
	if err := durable.MkdirAll(filepath.Join(cfg.Data, "bundles"), 0o700); err != nil {
		return fmt.Errorf("make the folder of the bundles: %w", err)
	}
	for _, s := range all {
		b, err := cfg.Client.Bundle(ctx, s.sum.AttemptIDs()...)
		if err != nil {
			return fmt.Errorf("export the bundle of %s: %w", s.name, err)
		}
		if err := durable.WriteFile(s.bundle, b, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", s.bundle, err)
		}
	}
	b, err := cfg.Client.Trust(ctx)
	if err != nil {
		return fmt.Errorf("export the trust file: %w", err)
	}
	if err := durable.WriteFile(trustPath, b, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", trustPath, err)
	}
	return nil
}

// verifyFiles reads the two files back, as somebody else would, and verifies
// them with nothing but their content.
func verifyFiles(bundle, trust string) (*receipt.Report, error) {
	b, err := os.ReadFile(bundle)
	if err != nil {
		return nil, fmt.Errorf("read the bundle back: %w", err)
	}
	t, err := os.ReadFile(trust)
	if err != nil {
		return nil, fmt.Errorf("read the trust file back: %w", err)
	}
	return verify(b, t)
}
