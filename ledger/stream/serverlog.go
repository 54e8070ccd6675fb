package stream

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
)

// serverLog passes what a server says to a logger. A server that cannot start
// says why only there, so the last fatal message is kept.
type serverLog struct {
	next    *slog.Logger
	onError func()
	said    *said
	last    atomic.Pointer[error]
}

const serverSays = "stream server"

func (l *serverLog) fatal() error {
	if e := l.last.Load(); e != nil {
		return *e
	}
	return nil
}

func (l *serverLog) Noticef(format string, v ...any) {
	l.next.Debug(serverSays, "text", fmt.Sprintf(format, v...))
}

func (l *serverLog) Debugf(string, ...any) {}
func (l *serverLog) Tracef(string, ...any) {}

func (l *serverLog) Warnf(format string, v ...any) {
	l.next.Warn(serverSays, "text", fmt.Sprintf(format, v...))
}

func (l *serverLog) Errorf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.said.hear(text)
	l.next.Error(serverSays, "text", text)
	l.onError()
}

func (l *serverLog) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	err := errors.New(text)
	l.last.Store(&err)
	l.next.Error(serverSays, "text", text)
	l.onError()
}
