package server

import (
	"math"
	"sync"
	"time"
)

// limiter counts the requests of each log: a bucket of qpd tokens that is full
// at first and is filled evenly, qpd tokens a day. So a log may come in a burst
// and still not more often than qpd times a day over any long time. Buckets
// start full again when the process does.
type limiter struct {
	mu      sync.Mutex
	buckets map[string]*bucket // by origin of known logs only, so it is bounded
}

type bucket struct {
	tokens float64
	at     time.Time
}

const day = 24 * time.Hour

// allow takes a token. If there is none it returns how long until there is.
func (l *limiter) allow(origin string, qpd uint64, now time.Time) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := float64(qpd)
	b := l.buckets[origin]
	if b == nil {
		b = &bucket{tokens: full, at: now}
		l.buckets[origin] = b
	}
	if gone := now.Sub(b.at); gone > 0 { // a clock that goes back gives nothing and takes nothing
		b.tokens = min(full, b.tokens+full*gone.Seconds()/day.Seconds())
	}
	b.at = now
	// A token that lacks less than a nanosecond's worth counts: it is rounding.
	if missing := 1 - b.tokens; missing > full/float64(day) {
		return time.Duration(math.Ceil(missing * float64(day) / full)), false
	}
	b.tokens = max(0, b.tokens-1)
	return 0, true
}
