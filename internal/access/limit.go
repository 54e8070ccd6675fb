package access

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxTracked is how many callers a [Limiter] remembers, about 200 bytes each. Who
// has not asked for longest is forgotten first, and starts with a full burst again:
// whoever has that many addresses is not held up by limits on addresses.
const maxTracked = 10_000

// Limiter bounds how often each caller asks. The zero rate lets everything pass. It
// is safe for concurrent use.
type Limiter struct {
	perSecond int
	max       int

	mu     sync.Mutex
	recent *list.List // of *tracked, last asked first
	byKey  map[string]*list.Element
}

type tracked struct {
	key    string
	bucket *rate.Limiter
}

// NewLimiter admits so many requests a second of each caller, and twice as many at
// once; 0 for no limit.
func NewLimiter(perSecond int) *Limiter {
	return &Limiter{perSecond: perSecond, max: maxTracked, recent: list.New(), byKey: map[string]*list.Element{}}
}

// Take counts a request. If it is one too many it returns how long to wait; such a
// request costs the caller nothing.
func (l *Limiter) Take(key string, now time.Time) (wait time.Duration, ok bool) {
	if l == nil || l.perSecond <= 0 {
		return 0, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.byKey[key]
	if e == nil {
		e = l.recent.PushFront(&tracked{key, rate.NewLimiter(rate.Limit(l.perSecond), 2*l.perSecond)})
		l.byKey[key] = e
		if l.recent.Len() > l.max {
			last := l.recent.Back()
			delete(l.byKey, l.recent.Remove(last).(*tracked).key)
		}
	} else {
		l.recent.MoveToFront(e)
	}
	r := e.Value.(*tracked).bucket.ReserveN(now, 1)
	if d := r.DelayFrom(now); d > 0 {
		r.CancelAt(now)
		return d, false
	}
	return 0, true
}

// AddressKey is what a remote address is counted under: an IPv4 address, or the
// network of 64 bits of an IPv6 one, which is one customer's.
func AddressKey(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	if err != nil {
		return remote
	}
	a := ap.Addr().Unmap().WithZone("")
	if a.Is4() {
		return a.String()
	}
	p, err := a.Prefix(64)
	if err != nil {
		return a.String()
	}
	return p.String()
}
