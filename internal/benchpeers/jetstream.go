package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"counterfoil/internal/bench/report"
	"counterfoil/internal/bench/rig"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// jetStreamBatch is the largest batch that JetStream stores as one.
const jetStreamBatch = 1000

// jetStream is a server in this process with a stream in files, one replica, and
// connections without a network, one for each eight publishers. Events are
// published one by one or in atomic batches.
func jetStream(always bool, batch int) rig.System {
	name := "JetStream"
	if always {
		name += ", flush always"
	}
	if batch > 1 {
		name += ", atomic batches of " + report.Count(batch)
	}
	return rig.System{Name: name, Open: func(ctx context.Context, dir string, clients int) (_ rig.Recorder, err error) {
		srv, err := server.NewServer(&server.Options{DontListen: true, NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir, SyncAlways: always})
		if err != nil {
			return nil, err
		}
		srv.Start()
		c := &jetStreamClients{srv: srv, batch: batch, value: value()}
		defer func() {
			if err != nil {
				_ = c.Close()
			}
		}()
		if !srv.ReadyForConnections(30 * time.Second) {
			return nil, errors.New("the server is not ready")
		}
		for range (clients + 7) / 8 {
			nc, err := nats.Connect("", nats.InProcessServer(srv))
			if err != nil {
				return nil, err
			}
			c.conns = append(c.conns, nc)
		}
		js, err := jetstream.New(c.conns[0])
		if err != nil {
			return nil, err
		}
		_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "BENCH", Subjects: []string{"bench.>"}, Storage: jetstream.FileStorage, Replicas: 1, AllowAtomicPublish: true})
		return c, err
	}}
}

type jetStreamClients struct {
	srv   *server.Server
	conns []*nats.Conn
	batch int
	value []byte
	ids   atomic.Int64
}

func (c *jetStreamClients) Record(ctx context.Context, client int) (int, error) {
	nc, subject := c.conns[client%len(c.conns)], "bench."+strconv.Itoa(client%64)
	if c.batch == 1 {
		answer, err := nc.RequestWithContext(ctx, subject, c.value)
		if err != nil {
			return 0, err
		}
		return 1, stored(answer, 1)
	}
	id := "batch-" + strconv.FormatInt(c.ids.Add(1), 10)
	for i := 1; ; i++ {
		m := &nats.Msg{Subject: subject, Data: c.value, Header: nats.Header{"Nats-Batch-Id": {id}, "Nats-Batch-Sequence": {strconv.Itoa(i)}}}
		if i < c.batch {
			if err := nc.PublishMsg(m); err != nil {
				return 0, err
			}
			continue
		}
		m.Header.Set("Nats-Batch-Commit", "1")
		answer, err := nc.RequestMsgWithContext(ctx, m)
		if err != nil {
			return 0, err
		}
		return c.batch, stored(answer, c.batch)
	}
}

// stored reads the answer to a publish, which must be good.
func stored(m *nats.Msg, batch int) error {
	var a struct {
		Seq   uint64          `json:"seq"`
		Count int             `json:"count"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &a); err != nil {
		return fmt.Errorf("answer %.200q: %w", m.Data, err)
	}
	if a.Error != nil || a.Seq == 0 || batch > 1 && a.Count != batch {
		return fmt.Errorf("not stored: %.300s", m.Data)
	}
	return nil
}

func (c *jetStreamClients) Settle(context.Context) error { return nil }

func (c *jetStreamClients) Close() error {
	for _, nc := range c.conns {
		nc.Close()
	}
	c.srv.Shutdown()
	c.srv.WaitForShutdown()
	return nil
}
