package consumer

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"counterfoil/ledger/trust"
)

// witnessedTimeout bounds a request for the witnessed checkpoint.
const witnessedTimeout = 30 * time.Second

// WitnessedHTTP is Config.Witnessed of a ledger: base is the prefix of its log, as
// for tiles.HTTP, and the resource is "checkpoint.witnessed" below it. A server
// that does not have it answers 404, and does no harm. Nil is the default client.
func WitnessedHTTP(base string, client *http.Client) func(context.Context) ([]byte, error) {
	if client == nil {
		client = http.DefaultClient
	}
	url := strings.TrimSuffix(base, "/") + "/checkpoint.witnessed"
	return func(ctx context.Context) ([]byte, error) {
		ctx, cancel := context.WithTimeout(ctx, witnessedTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		res, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer res.Body.Close()
		switch res.StatusCode {
		case http.StatusOK:
		case http.StatusNotFound:
			return nil, fmt.Errorf("GET %s: status %d: %w", url, res.StatusCode, fs.ErrNotExist)
		default:
			return nil, fmt.Errorf("GET %s: status %d, expected 200 or 404", url, res.StatusCode)
		}
		// One byte more than is lawful is refused by whoever reads the note.
		return io.ReadAll(io.LimitReader(res.Body, trust.MaxNoteBytes+1))
	}
}
