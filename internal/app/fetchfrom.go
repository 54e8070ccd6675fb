package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"counterfoil/ledger/consumer"
	"counterfoil/ledger/tiles"
)

// How a node's tiles are asked for: another node is asked soon where one does not
// answer.
const (
	fetchTimeout  = 20 * time.Second
	fetchAttempts = 3
)

func tilesAt(prefix string) (tiles.Source, error) {
	return tiles.HTTP(prefix, tiles.HTTPConfig{Client: http.DefaultClient, Timeout: fetchTimeout, Attempts: fetchAttempts})
}

// readCheckpoint reads the newest checkpoint of a node, or of a prefix of tiles: that
// with cosignatures of a quorum if it must have them.
func readCheckpoint(ctx context.Context, url string, witnessed bool) (tiles.Source, []byte, error) {
	base := strings.TrimSuffix(url, "/")
	for _, prefix := range []string{base + "/log", base} {
		src, err := tilesAt(prefix)
		if err != nil {
			return nil, nil, err
		}
		raw, _, err := src.Read(ctx, tiles.Path{Kind: tiles.Checkpoint})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && witnessed {
			var more []byte
			if more, err = consumer.WitnessedHTTP(prefix, nil)(ctx); err == nil {
				raw = more
			} else if errors.Is(err, fs.ErrNotExist) { // a mirror's checkpoint has what cosignatures there are
				err = nil
			}
		}
		return src, raw, err
	}
	return nil, nil, fmt.Errorf("there is no checkpoint at %s, nor under log/ there", base)
}
