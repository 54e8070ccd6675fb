package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/backup"
)

// BackupRequest is the body of POST /v1/backup.
type BackupRequest struct {
	From       backup.Point `json:"from"`       // where the backup to continue ends
	Passphrase string       `json:"passphrase"` // takes the keys along; "" leaves them out
}

// backup serves POST /v1/backup: a tar file, which is whole only if it has its
// manifest.
func (s *Server) backup(w http.ResponseWriter, r *http.Request) error {
	b, err := body(w, r, maxKeyBody)
	if err != nil {
		return err
	}
	var req BackupRequest
	if len(b) > 0 {
		if err := json.Unmarshal(b, &req, json.RejectUnknownMembers(true)); err != nil {
			return invalid("", "the members are in docs/spec/http.md", "not the body of a backup: "+err.Error())
		}
	}
	if size, _ := s.cfg.Ledger.Published(); req.From.Size > size {
		return NewConflict("the backup to continue has more leaves than this ledger", "it is of another ledger, or this one was set back")
	}
	w.Header().Set("Content-Type", "application/x-tar")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // it takes as long as it takes
	out := &begun{w: w}
	err = s.cfg.Ledger.Backup(r.Context(), out, req.From, req.Passphrase)
	if err == nil || !out.yes {
		return err
	}
	s.Explain(r.Method+" "+r.URL.Path, err)
	panic(http.ErrAbortHandler) // the caller must not take what came for all there is
}

// begun remembers whether anything was written.
type begun struct {
	w   io.Writer
	yes bool
}

func (b *begun) Write(p []byte) (int, error) {
	b.yes = true
	return b.w.Write(p)
}

// BackupSource writes backups.
type BackupSource interface {
	Backup(ctx context.Context, w io.Writer, from backup.Point, passphrase string) error
}
