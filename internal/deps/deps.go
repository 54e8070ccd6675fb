//go:build deps

// Package deps pins modules until their first importer lands.
package deps

import (
	_ "connectrpc.com/connect"
	_ "github.com/dgraph-io/badger/v4"
	_ "github.com/go-json-experiment/json/jsontext"
	_ "github.com/gofrs/flock"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/hashicorp/golang-lru/v2"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go/jetstream"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/spf13/cobra"
	_ "github.com/transparency-dev/formats/log"
	_ "github.com/transparency-dev/formats/note"
	_ "github.com/transparency-dev/merkle/compact"
	_ "github.com/transparency-dev/merkle/proof"
	_ "github.com/transparency-dev/merkle/rfc6962"
	_ "github.com/transparency-dev/tessera/fsck"
	_ "github.com/transparency-dev/tessera/storage/posix"
	_ "go.uber.org/goleak"
	_ "golang.org/x/crypto/chacha20poly1305"
	_ "golang.org/x/mod/sumdb/note"
	_ "golang.org/x/sync/errgroup"
	_ "google.golang.org/protobuf/proto"
	_ "pgregory.net/rapid"
)
