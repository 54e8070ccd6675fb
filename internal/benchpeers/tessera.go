package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"counterfoil/internal/bench/rig"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

// tesseraQuick is how long a batch that suits its clients waits to be full.
const tesseraQuick = 2 * time.Millisecond

// tesseraAlone is the POSIX driver without the ledger, each entry awaited until
// it is in the stored tree. It comes with its own settings, or with batches as
// large as there are clients, which wait no longer than tesseraQuick.
func tesseraAlone(suited bool) rig.System {
	name := fmt.Sprintf("Tessera, batches of %d or %s", tessera.DefaultBatchMaxSize, tessera.DefaultBatchMaxAge)
	if suited {
		name = fmt.Sprintf("Tessera, batches as clients or %s", tesseraQuick)
	}
	return rig.System{Name: name, Open: func(_ context.Context, dir string, clients int) (rig.Recorder, error) {
		skey, _, err := note.GenerateKey(nil, "bench.example/tessera")
		if err != nil {
			return nil, err
		}
		signer, err := note.NewSigner(skey)
		if err != nil {
			return nil, err
		}
		opts := tessera.NewAppendOptions().WithCheckpointSigner(signer).WithCheckpointInterval(time.Second)
		if suited {
			opts = opts.WithBatching(uint(clients), tesseraQuick)
		}
		ctx, stop := context.WithCancel(context.Background())
		driver, err := posix.New(ctx, posix.Config{Path: dir})
		if err != nil {
			stop()
			return nil, err
		}
		appender, shutdown, _, err := tessera.NewAppender(ctx, driver, opts)
		if err != nil {
			stop()
			return nil, err
		}
		return &tesseraClients{appender: appender, shutdown: shutdown, stop: stop, value: value()}, nil
	}}
}

type tesseraClients struct {
	appender *tessera.Appender
	shutdown func(context.Context) error
	stop     context.CancelFunc
	value    []byte
	entries  atomic.Int64
}

func (c *tesseraClients) Record(ctx context.Context, _ int) (int, error) {
	b := append([]byte(nil), c.value...)
	copy(b, strconv.FormatInt(c.entries.Add(1), 10))
	_, err := c.appender.Add(ctx, tessera.NewEntry(b))()
	return 1, err
}

func (c *tesseraClients) Settle(context.Context) error { return nil }

func (c *tesseraClients) Close() error {
	defer c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := c.shutdown(ctx); err != nil {
		return errors.Join(errors.New("tessera: stop"), err)
	}
	return nil
}
