package main

import (
	"os"
	"runtime/debug"
)

// Collecting garbage half as often saves processor time that a ledger has better
// use for, and the limit keeps its memory where it would be anyway: near it the
// collector works as often as it has to. GOGC and GOMEMLIMIT override both.
const (
	gcPercent   = 200
	memoryLimit = 256 << 20
)

func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
