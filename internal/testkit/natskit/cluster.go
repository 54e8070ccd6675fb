package natskit

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"counterfoil/internal/testkit/freeport"
)

// Cluster is three NATS servers in this process that keep streams together, as an
// operator runs them.
type Cluster struct {
	// URL names all of them, by commas.
	URL string

	t    testing.TB
	opts [3]*server.Options
	srv  [3]*server.Server
}

// StartCluster runs three servers on store directories below dir.
func StartCluster(t testing.TB, dir string) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	var routes []*url.URL
	ports := freeport.Row(t, 2*len(c.opts)) // for clients, then for routes; the same over restarts
	for i := range c.opts {
		routes = append(routes, &url.URL{Scheme: "nats-route", Host: fmt.Sprint("127.0.0.1:", ports+len(c.opts)+i)})
	}
	for i := range c.opts {
		name := fmt.Sprint("s", i+1)
		c.opts[i] = &server.Options{ServerName: name, Host: "127.0.0.1", Port: ports + i, JetStream: true, StoreDir: filepath.Join(dir, name),
			SyncAlways: true, NoSigs: true, NoLog: true, Routes: routes,
			Cluster: server.ClusterOpts{Name: "external", Host: "127.0.0.1", Port: ports + len(c.opts) + i}}
	}
	var urls []string
	for i := range c.opts {
		c.Restart(i)
		urls = append(urls, c.srv[i].ClientURL())
	}
	c.URL = strings.Join(urls, ",")
	t.Cleanup(func() {
		for i := range c.srv {
			c.Stop(i)
		}
	})
	return c
}

// Stop ends a server.
func (c *Cluster) Stop(i int) {
	if c.srv[i] != nil {
		c.srv[i].Shutdown()
		c.srv[i].WaitForShutdown()
		c.srv[i] = nil
	}
}

// Restart runs a server again on what it kept.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	srv, err := server.NewServer(c.opts[i].Clone())
	if err != nil {
		c.t.Fatal(err)
	}
	srv.Start()
	for deadline := time.Now().Add(30 * time.Second); srv.Addr() == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.t.Fatal("the server does not listen")
		}
	}
	c.srv[i] = srv
}
