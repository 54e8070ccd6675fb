// Command profiled is counterfoil serve, as the benchmarks call it, with a
// processor profile of its whole life. It takes the flags that they use alone.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"counterfoil/internal/app"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "profiled:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	if len(args) == 0 || args[0] != "serve" {
		return errors.New("want: serve")
	}
	fs := flag.NewFlagSet("profiled serve", flag.ContinueOnError)
	data := fs.String("data", "", "data directory")
	listen := fs.String("listen", "", "address of the HTTP API")
	policy := fs.String("witness-policy", "", "policy file")
	name := fs.String("cluster-name", "", "name of the cluster")
	node := fs.String("node", "", "name of this node")
	at := fs.String("cluster-listen", "", "address for other nodes")
	routes := fs.String("routes", "", "other nodes")
	profile := fs.String("cpuprofile", "", "file of the profile")
	var level slog.Level
	fs.TextVar(&level, "log-level", slog.LevelWarn, "lowest level that is logged")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	f, err := os.Create(*profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	var nodes *app.Cluster
	if *name != "" {
		nodes = &app.Cluster{Name: *name, Node: *node, Listen: *at, Routes: strings.Split(*routes, ",")}
	}
	return app.Serve(ctx, app.Config{
		Dir: *data, Cluster: nodes, Listen: *listen, WitnessPolicy: *policy, Random: rand.Reader, Now: time.Now,
		Logger: slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level})),
	}, func(r app.Ready) error {
		return json.NewEncoder(os.Stdout).Encode(struct {
			Listening string `json:"listening"`
		}{r.Listening})
	})
}
