package api

import (
	"context"
	"encoding/base64"
	"net/http"
)

// KeysSchema is the schemaVersion of Keys.
const KeysSchema = "counterfoil.keys.v1"

// Keys are the registered event keys.
type Keys struct {
	SchemaVersion string `json:"schemaVersion"`
	Signing       string `json:"signing"` // keyId of the one that signs now
	Keys          []Key  `json:"keys"`    // sorted by keyId
}

// Key is a registered event key with the leaf indexes where it counts: see
// docs/spec/trust.md.
type Key struct {
	KeyID            string  `json:"keyId"`
	PublicKey        string  `json:"publicKey"` // standard base64
	Status           string  `json:"status"`    // active, retired, revoked or disabled
	FromIndex        uint64  `json:"fromIndex"`
	ToIndex          *uint64 `json:"toIndex,omitempty"`
	RevokedFromIndex *uint64 `json:"revokedFromIndex,omitempty"`
}

// KeyAdmin changes event keys. Every change is an event of the log.
type KeyAdmin interface {
	Keys(ctx context.Context) Keys
	RegisterKey(ctx context.Context, keyID string, pub []byte) (Key, error)
	RotateKey(ctx context.Context) (Key, error)
	SetKeyStatus(ctx context.Context, keyID, status string, from *uint64) (Key, error)
}

// maxKeyBody bounds the body of a key change.
const maxKeyBody = 4 << 10

func (s *Server) keys(w http.ResponseWriter, r *http.Request) error {
	writeJSON(w, http.StatusOK, s.cfg.Ledger.Keys(r.Context()))
	return nil
}

// registerKey serves POST /v1/keys.
func (s *Server) registerKey(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		KeyID     string `json:"keyId"`
		PublicKey string `json:"publicKey"`
	}
	if err := decodeBody(w, r, maxKeyBody, &req); err != nil {
		return err
	}
	pub, err := base64.StdEncoding.Strict().DecodeString(req.PublicKey)
	if err != nil {
		return invalid("/publicKey", "it is what counterfoil keys generate prints", "publicKey is not standard base64 with padding")
	}
	return carried(s, w, r, http.StatusOK, func(ctx context.Context) (Key, error) { return s.cfg.Ledger.RegisterKey(ctx, req.KeyID, pub) })
}

// rotateKey serves POST /v1/keys/rotate.
func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) error {
	return carried(s, w, r, http.StatusOK, s.cfg.Ledger.RotateKey)
}

// setKeyStatus serves POST /v1/keys/{keyId}/status.
func (s *Server) setKeyStatus(w http.ResponseWriter, r *http.Request) error {
	var req struct {
		Status    string  `json:"status"`
		FromIndex *uint64 `json:"fromIndex"`
	}
	if err := decodeBody(w, r, maxKeyBody, &req); err != nil {
		return err
	}
	switch req.Status {
	case "retired", "revoked", "disabled":
	default:
		return invalid("/status", "use retired, revoked or disabled", "a key cannot be set to this status")
	}
	return carried(s, w, r, http.StatusOK, func(ctx context.Context) (Key, error) {
		return s.cfg.Ledger.SetKeyStatus(ctx, r.PathValue("keyId"), req.Status, req.FromIndex)
	})
}
