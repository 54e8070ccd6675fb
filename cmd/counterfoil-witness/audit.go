package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"counterfoil/internal/durable"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/witness/audit"
	"counterfoil/witness/server"
)

// Bounds of the semantic mode.
const (
	maxAuditFile = 1 << 20
	// auditWait is how long a request waits for its audit: less than the time that
	// a client allows for a witness.
	auditWait    = 4 * time.Second
	auditTimeout = 20 * time.Second // of one request to a log
	auditRetry   = 2 * time.Second
)

// gate is the audit of what is to be cosigned; nil without --audit.
type gate struct{ g *audit.Gate }

func openGate(f serveFlags, origins []string, log *slog.Logger) (*gate, error) {
	if f.audit == "" {
		return nil, nil
	}
	logs, err := readAuditFile(f.audit)
	if err != nil {
		return nil, err
	}
	for _, origin := range origins {
		if !slices.ContainsFunc(logs, func(l audit.GateLog) bool { return l.Trust.Origin() == origin }) {
			log.Warn("this log is not cosigned: the file of --audit has no line for it", "origin", origin)
		}
	}
	g, err := audit.OpenGate(audit.GateConfig{Dir: filepath.Join(f.state, "audit"), Logs: logs, Wait: auditWait, Now: time.Now, Logger: log})
	if err != nil {
		return nil, err
	}
	return &gate{g}, nil
}

func (g *gate) close() error {
	if g == nil {
		return nil
	}
	return g.g.Close()
}

// hook is what the server asks.
func (g *gate) hook() func(context.Context, string, []byte) *server.Objection {
	if g == nil {
		return nil
	}
	return func(ctx context.Context, origin string, note []byte) *server.Objection {
		err := g.g.Check(ctx, origin, note)
		var refused *audit.Refused
		switch {
		case err == nil:
			return nil
		case errors.As(err, &refused), errors.Is(err, audit.ErrNoGateLog):
			return &server.Objection{Status: http.StatusForbidden, Detail: oneLine(err)}
		}
		return &server.Objection{Status: http.StatusServiceUnavailable, Detail: oneLine(err), Retry: auditRetry}
	}
}

func oneLine(err error) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, err.Error())
}

// readAuditFile reads the lines ORIGIN LOG_URL TRUST_FILE [allow-parked N]. Trust
// files are relative to the file.
func readAuditFile(path string) ([]audit.GateLog, error) {
	raw, err := durable.ReadFile(path, maxAuditFile)
	if err != nil {
		return nil, fmt.Errorf("read the file of --audit: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true}}
	var logs []audit.GateLog
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		l, err := readAuditLine(words, filepath.Dir(path), client)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w (hint: ORIGIN LOG_URL TRUST_FILE [allow-parked N])", path, n, err)
		}
		logs = append(logs, l)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(logs) == 0 {
		return nil, fmt.Errorf("%s names no log", path)
	}
	return logs, nil
}

func readAuditLine(words []string, dir string, client *http.Client) (l audit.GateLog, err error) {
	switch {
	case len(words) == 5 && words[3] == "allow-parked":
		if l.AllowParked, err = strconv.ParseUint(words[4], 10, 53); err != nil {
			return l, fmt.Errorf("%q is no number of leaves", words[4])
		}
	case len(words) != 3:
		return l, fmt.Errorf("%d words", len(words))
	}
	file := words[2]
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	raw, err := durable.ReadFile(file, trust.MaxFileBytes)
	if err != nil {
		return l, err
	}
	if l.Trust, err = trust.Parse(raw); err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}
	if l.Trust.Origin() != words[0] {
		return l, fmt.Errorf("the trust file is of log %s, not of %s", l.Trust.Origin(), words[0])
	}
	l.Source, err = tiles.HTTP(words[1], tiles.HTTPConfig{Client: client, Timeout: auditTimeout, Attempts: 3})
	return l, err
}
