package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
)

// Keys are the registered event keys of a ledger.
type Keys struct {
	SchemaVersion string `json:"schemaVersion"`
	Signing       string `json:"signing"` // keyId of the one that signs now
	Keys          []Key  `json:"keys"`
}

// Key is a registered event key with the leaf indexes where it counts.
type Key struct {
	KeyID            string  `json:"keyId"`
	PublicKey        string  `json:"publicKey"` // standard base64
	Status           string  `json:"status"`
	FromIndex        uint64  `json:"fromIndex"`
	ToIndex          *uint64 `json:"toIndex,omitempty"`
	RevokedFromIndex *uint64 `json:"revokedFromIndex,omitempty"`
}

// Keys reads the registered event keys.
func (c *Client) Keys(ctx context.Context) (*Answer[Keys], error) {
	return get[Keys](ctx, c, "/v1/keys", nil)
}

// RegisterKey registers a public key, in standard base64, under its id. A key that
// is registered stays as it is.
func (c *Client) RegisterKey(ctx context.Context, keyID, publicKey string) (*Answer[Key], error) {
	return c.changeKey(ctx, "/v1/keys", map[string]any{"keyId": keyID, "publicKey": publicKey})
}

// RotateKey makes the ledger sign with a new key from now on; the one before is
// retired. It is not repeated: a second call would make a second key.
func (c *Client) RotateKey(ctx context.Context) (*Answer[Key], error) {
	return c.changeKey(ctx, "/v1/keys/rotate", nil)
}

// SetKeyStatus retires, revokes or disables a key that does not sign. from is the
// first leaf index to which that applies, for a revocation; nil is the next one.
func (c *Client) SetKeyStatus(ctx context.Context, keyID, status string, from *uint64) (*Answer[Key], error) {
	body := map[string]any{"status": status}
	if from != nil {
		body["fromIndex"] = *from
	}
	return c.changeKey(ctx, "/v1/keys/"+url.PathEscape(keyID)+"/status", body)
}

func (c *Client) changeKey(ctx context.Context, path string, members map[string]any) (*Answer[Key], error) {
	body := []byte{}
	if members != nil {
		var err error
		if body, err = json.Marshal(members, json.Deterministic(true)); err != nil {
			return nil, fmt.Errorf("encode a key change: %w", err)
		}
	}
	raw, _, err := c.read(ctx, http.MethodPost, path, nil, body, MaxAnswerBytes)
	if err != nil {
		return nil, err
	}
	return parse[Key](path, raw)
}
