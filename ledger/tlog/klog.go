package tlog

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"k8s.io/klog/v2"
)

// tesseraLogger is where Tessera's talk goes. Klog is global, and changing its
// logger races with goroutines that use it: it gets one that looks here.
var tesseraLogger atomic.Pointer[slog.Logger]

var redirectOnce sync.Once

// redirectKlog sends what Tessera logs to l instead of stderr: its errors as
// warnings, since every error also comes back to the caller, all else at debug
// level.
func redirectKlog(l *slog.Logger) {
	tesseraLogger.Store(l)
	redirectOnce.Do(func() {
		klog.LogToStderr(false)
		klog.SetSlogLogger(slog.New(quieter{}))
	})
}

// quieter lowers the level of every record. Tessera uses no structured fields,
// so those that klog could add later (WithAttrs, WithGroup) are dropped.
type quieter struct{}

func quieted(level slog.Level) slog.Level {
	if level >= slog.LevelError {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

func (quieter) Enabled(ctx context.Context, level slog.Level) bool {
	return tesseraLogger.Load().Enabled(ctx, quieted(level))
}

func (quieter) Handle(ctx context.Context, r slog.Record) error {
	r.Level = quieted(r.Level)
	r.AddAttrs(slog.String("from", "tessera"))
	return tesseraLogger.Load().Handler().Handle(ctx, r)
}

func (q quieter) WithAttrs([]slog.Attr) slog.Handler { return q }
func (q quieter) WithGroup(string) slog.Handler      { return q }
