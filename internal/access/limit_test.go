package access

import (
	"fmt"
	"testing"
	"time"
)

func TestLimitsAreOfEachCaller(t *testing.T) {
	l, at := NewLimiter(10), now
	for i := range 20 { // twice the rate at once
		if wait, ok := l.Take("a", at); !ok {
			t.Fatalf("request %d waits %s", i, wait)
		}
	}
	wait, ok := l.Take("a", at)
	if ok || wait <= 0 || wait > time.Second {
		t.Fatalf("request 21: %s %v", wait, ok)
	}
	if _, ok := l.Take("b", at); !ok {
		t.Error("another caller waits for the first")
	}
	// What was refused costs nothing: who waits as told gets in.
	for range 1000 {
		l.Take("a", at)
	}
	if _, ok := l.Take("a", at.Add(wait)); !ok {
		t.Error("it waited as it was told")
	}
	var none *Limiter
	for range 1000 {
		if _, ok := none.Take("a", at); !ok {
			t.Fatal("no limiter limits")
		}
		if _, ok := NewLimiter(0).Take("a", at); !ok {
			t.Fatal("no limit limits")
		}
	}
}

// However many addresses ask, the memory is bounded, and who asks all the time is
// not forgotten for those who come once.
func TestALimiterRemembersABoundedNumber(t *testing.T) {
	l := NewLimiter(1)
	l.max = 100
	l.Take("busy", now)
	l.Take("busy", now)
	for i := range 10_000 {
		l.Take(fmt.Sprint(i), now)
		if _, ok := l.Take("busy", now); ok {
			t.Fatalf("forgotten after %d others", i)
		}
	}
	if len(l.byKey) != 100 || l.recent.Len() != 100 {
		t.Errorf("%d and %d are remembered", len(l.byKey), l.recent.Len())
	}
}

func TestAddressKey(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:4711":              "192.0.2.7",
		"[::ffff:192.0.2.7]:4711":     "192.0.2.7",
		"[2001:db8:1:2:3:4:5:6]:4711": "2001:db8:1:2::/64",
		"[2001:db8:1:2::9]:80":        "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80":           "fe80::/64",
		"@":                           "@",
	} {
		if got := AddressKey(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
