package kv

import (
	"fmt"
	"log/slog"
	"strings"
)

// badgerLog passes Badger's own messages on at level debug: they are about
// compactions and files, not about the ledger. Errors stay visible.
type badgerLog struct{ log *slog.Logger }

func (l badgerLog) Errorf(f string, a ...any)   { l.log.Error("views database", "message", line(f, a)) }
func (l badgerLog) Warningf(f string, a ...any) { l.log.Debug("views database", "message", line(f, a)) }
func (l badgerLog) Infof(f string, a ...any)    { l.log.Debug("views database", "message", line(f, a)) }
func (l badgerLog) Debugf(string, ...any)       {} // a line for every write: too many even for debug

func line(f string, a []any) string { return strings.TrimSpace(fmt.Sprintf(f, a...)) }
