package main

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// usage is what a ledger has used so far. Unlike times by the clock it says
// little about what else the machine does.
type usage struct {
	ledger, load time.Duration // processor time, user and system
	mallocs      float64       // objects
	bytes        float64       // allocated
}

func (s *server) usage() usage {
	u := usage{ledger: cpu(s.cmd.Process.Pid), load: cpu(0)}
	code, b, err := s.get("/metrics")
	if err != nil || code != http.StatusOK {
		return u
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 2 {
			continue
		}
		switch f[0] {
		case "go_memstats_mallocs_total":
			u.mallocs, _ = strconv.ParseFloat(f[1], 64)
		case "go_memstats_alloc_bytes_total":
			u.bytes, _ = strconv.ParseFloat(f[1], 64)
		}
	}
	return u
}

// work adds what n events cost since before.
func (s *section) work(srv *server, before usage, n int) {
	now := srv.usage()
	s.series("processor time of the ledger", "µs/event").add(float64((now.ledger - before.ledger).Microseconds()) / float64(n))
	s.series("processor time of the load generator", "µs/event").add(float64((now.load - before.load).Microseconds()) / float64(n))
	s.series("allocations of the ledger", "objects/event").add((now.mallocs - before.mallocs) / float64(n))
	s.series("allocated by the ledger", "KiB/event").add((now.bytes - before.bytes) / float64(n) / 1024)
}
