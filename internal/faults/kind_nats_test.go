package faults

import (
	"slices"
	"syscall"
	"time"
)

// What clients hear while the stream is away.
var streamAway = []string{"503 stream_unavailable", "503 timeout"}

var natsKilledKind = kind{
	name:  "NATS killed",
	says:  "kill −9 of an external NATS, away for up to 4 s, then started again",
	needs: externalNATS,
	inject: func(r *round) {
		r.era.nats.Kill()
		eventually(r.t, "readiness names the stream", func() bool { return slices.Contains(r.p.unready(), "stream") })
		r.sleep(0, r.atMost(4*time.Second))
		r.era.nats.Restart()
		r.grown(50)
	},
	refusals: streamAway,
}

var natsFrozenKind = kind{
	name:  "NATS frozen",
	says:  "SIGSTOP of an external NATS for up to 8 s, then SIGCONT",
	needs: externalNATS,
	inject: func(r *round) {
		r.era.nats.Signal(syscall.SIGSTOP)
		r.sleep(200*time.Millisecond, r.atMost(8*time.Second))
		r.era.nats.Signal(syscall.SIGCONT)
		r.grown(50)
	},
	refusals: streamAway,
}
