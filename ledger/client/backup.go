package client

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/go-json-experiment/json"
)

// BackupPoint is where a backup ends and one that continues it begins.
type BackupPoint struct {
	Size  uint64 `json:"size"`
	Vault uint64 `json:"vault"`
}

// Backup writes a backup of the ledger to w: what came after from, and the keys if
// there is a passphrase. That it is whole only its reader can tell.
func (c *Client) Backup(ctx context.Context, from BackupPoint, passphrase string, w io.Writer) error {
	body, err := json.Marshal(struct {
		From       BackupPoint `json:"from"`
		Passphrase string      `json:"passphrase,omitempty"`
	}{from, passphrase})
	if err != nil {
		return fmt.Errorf("encode the request for a backup: %w", err)
	}
	res, err := c.request(ctx, http.MethodPost, "/v1/backup", nil, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the backup breaks off: %w", err)
	}
	return nil
}
