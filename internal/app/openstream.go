package app

import (
	"context"
	"os"

	"counterfoil/ledger/stream"
)

// openStream opens the ledger's own stream, its node's part of a cluster's, or that
// of a NATS which others run.
func (l *Ledger) openStream(ctx context.Context) error {
	cfg := stream.Config{Tenant: l.id.Tenant, Origin: l.id.Origin, Fingerprint: l.keys.TenantFingerprint(), Logger: l.log}
	switch c := l.cfg.Cluster; {
	case l.cfg.NATS != "":
		var err error
		if cfg.URL, err = stream.WithPassword(l.cfg.NATS, l.cfg.NATSPasswordFile); err != nil {
			return err
		}
		cfg.CredsFile = l.cfg.NATSCreds
		if c != nil {
			cfg.Replicas = c.Replicas
		}
	case c != nil:
		secret, err := l.routeSecret()
		if err != nil {
			return err
		}
		cfg.Dir, cfg.Replicas = l.paths.clusterStream(), c.Replicas
		cfg.Cluster = &stream.ClusterConfig{Name: c.Name, Node: c.Node, Listen: c.Listen, Advertise: c.Advertise, Routes: c.Routes, Secret: secret}
	default:
		cfg.Dir = l.paths.stream()
	}
	if l.cfg.NATSListen != "" {
		token, err := secretFile(l.paths.consumerToken(), l.cfg.Random)
		if err != nil {
			return err
		}
		cfg.ListenAddr, cfg.ConsumerUser, cfg.ConsumerToken = l.cfg.NATSListen, "consumer", token
	}
	if l.joins() && cfg.Cluster != nil && !exists(cfg.Dir) {
		// A start that is refused leaves no vote of this name behind.
		l.onClose(func(context.Context) error {
			if l.refused {
				return os.RemoveAll(cfg.Dir)
			}
			return nil
		})
	}
	s, err := stream.Open(ctx, cfg)
	if err != nil {
		return err
	}
	l.stream = s
	l.onClose(s.Close)
	return nil
}
