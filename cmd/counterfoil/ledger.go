package main

import (
	"context"
	"crypto/rand"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/cli"
	"counterfoil/ledger/keyring"
)

// ledger runs the real ledger behind the command line.
type ledger struct{}

func config(cfg cli.ServeConfig) app.Config {
	var signer *keyring.HelperConfig
	if cfg.Signer != "" {
		signer = &keyring.HelperConfig{Path: cfg.Signer, Env: cfg.SignerEnv, Limit: cfg.SignerLimit, InFlight: 1024, Logger: cfg.Logger}
	}
	var cluster *app.Cluster
	if n := cfg.Node; n.Cluster != "" {
		cluster = &app.Cluster{Name: n.Cluster, Node: n.Name, Listen: n.Listen, Advertise: n.Advertise, Routes: n.Routes, Replicas: n.Replicas, RepairAlone: n.RepairAlone}
	}
	return app.Config{
		Dir: cfg.Data, Origin: cfg.Origin, Tenant: cfg.Tenant, Listen: cfg.Listen, AllowRemote: cfg.AllowRemote,
		Durability: cfg.Durability, NATS: cfg.NATS, NATSCreds: cfg.NATSCreds, NATSPasswordFile: cfg.NATSPasswordFile, NATSListen: cfg.NATSListen,
		Cluster: cluster, EventKeyID: cfg.EventKeyID, EventSeedFile: cfg.EventSeedFile, Signer: signer,
		WitnessPolicy: cfg.WitnessPolicy, CosignEvery: cfg.CosignEvery, RecosignEvery: cfg.RecosignEvery,
		TraceEndpoint: cfg.TraceEndpoint, TraceRatio: cfg.TraceRatio, MCPTrust: cfg.MCPTrust, ExternalURL: cfg.ExternalURL,
		RatePerToken: cfg.RatePerToken, RatePerAddress: cfg.RatePerAddress,
		Version: cli.Version(), Logger: cfg.Logger, Random: rand.Reader, Now: time.Now,
	}
}

func (ledger) Serve(ctx context.Context, cfg cli.ServeConfig, ready func(cli.Ready) error) error {
	return app.Serve(ctx, config(cfg), func(r app.Ready) error { return ready(cli.Ready(r)) })
}

func (ledger) Rebuild(ctx context.Context, cfg cli.ServeConfig) (cli.Rebuilt, error) {
	r, err := app.Rebuild(ctx, config(cfg))
	if err != nil {
		return cli.Rebuilt{}, err
	}
	return cli.Rebuilt{TreeSize: r.TreeSize, Parked: r.Parked, ViewDigest: r.Digest}, nil
}

func (ledger) FetchLog(ctx context.Context, cfg cli.ServeConfig, from []string, progress func(leaves, of uint64)) (cli.Fetched, error) {
	r, err := app.FetchLog(ctx, config(cfg), from, progress)
	if err != nil {
		return cli.Fetched{}, err
	}
	return cli.Fetched(*r), nil
}

func (ledger) PrepareNodes(cfg cli.ServeConfig, out []string) (string, error) {
	return app.PrepareNodes(config(cfg), out)
}
