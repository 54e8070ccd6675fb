package rig

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"time"
)

// Usage is what a ledger and this program have used. Unlike times by the clock
// it says little about what else the machine does.
type Usage struct {
	Ledger, Load time.Duration // processor time, user and system
	Objects      float64       // allocated by the ledger
	Bytes        float64       // allocated by the ledger
}

// Usage so far.
func (l *Ledger) Usage(ctx context.Context) (u Usage, err error) {
	b, err := l.Get(ctx, "/metrics")
	if err != nil {
		return u, err
	}
	for line := range bytes.Lines(b) {
		f := strings.Fields(string(line))
		if len(f) != 2 {
			continue
		}
		switch f[0] {
		case "go_memstats_mallocs_total":
			u.Objects, _ = strconv.ParseFloat(f[1], 64)
		case "go_memstats_alloc_bytes_total":
			u.Bytes, _ = strconv.ParseFloat(f[1], 64)
		}
	}
	u.Ledger, u.Load = CPU(l.Pid()), CPU(os.Getpid())
	return u, nil
}

// Since is what was used after before.
func (u Usage) Since(before Usage) Usage {
	return Usage{u.Ledger - before.Ledger, u.Load - before.Load, u.Objects - before.Objects, u.Bytes - before.Bytes}
}
