package rig

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/pprof"
	"time"

	"counterfoil/internal/api"
	"counterfoil/internal/app"
	"counterfoil/ledger/intake"
)

// InProcess is the whole ledger in this process, without HTTP: begin and outcome
// in turn, parsed from the same bodies as over HTTP, each waited for until stage
// logged.
func (r *Rig) InProcess() System {
	return System{Name: "ledger in process", Open: func(ctx context.Context, dir string, clients int) (Recorder, error) {
		stop, err := startProfile(r.profile(fmt.Sprintf("in-process-%d", clients)))
		if err != nil {
			return nil, err
		}
		l, err := app.Open(ctx, app.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})), Random: rand.Reader, Now: time.Now})
		if err != nil {
			return nil, errors.Join(err, stop())
		}
		return &inProcess{l, stop, make([]string, clients)}, nil
	}}
}

type inProcess struct {
	*app.Ledger
	stop func() error
	open []string // by client, the attempt that waits for its outcome
}

func (p *inProcess) Record(ctx context.Context, client int) (int, error) {
	res, err := p.record(ctx, client)
	if err != nil {
		return 0, err
	}
	return 1, p.Wait(ctx, res.LeafIndex(), api.StageLogged)
}

func (p *inProcess) record(ctx context.Context, client int) (*intake.Result, error) {
	if id := p.open[client]; id != "" {
		p.open[client] = ""
		a, err := intake.ParseAppend(OutcomeBody(id), id)
		if err != nil {
			return nil, err
		}
		return p.Append(ctx, a)
	}
	b, err := intake.ParseBegin(BeginBody())
	if err != nil {
		return nil, err
	}
	res, err := p.Begin(ctx, b)
	if err == nil {
		p.open[client] = res.Rec.Event.AttemptID
	}
	return res, err
}

func (p *inProcess) Settle(ctx context.Context) error {
	p.CatchUp(ctx)
	return ctx.Err()
}

func (p *inProcess) Close() error {
	return errors.Join(p.Ledger.Close(context.Background()), p.stop())
}

// startProfile begins a processor profile of this process; without a file it
// does nothing.
func startProfile(file string) (stop func() error, err error) {
	if file == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
