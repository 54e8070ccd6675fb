package server

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// TestLOG09_ConflictStorm: many clients feed one log at once, each with a size
// of its own in mind, and learn from 409 alone where the witness is. It ends
// where the log is, and no answer ever says less than one before.
func TestLOG09_ConflictStorm(t *testing.T) {
	const most, clients = 200, 16
	l := newLog(t, origin, most, most, "")
	w := newWitness(t, 1<<40, l)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	var mu sync.Mutex
	accepted := map[uint64]int{} // by the size that the witness went to
	var conflicts int
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			var known uint64
			for known < most {
				to := min(known+1+uint64(i)%5, most)
				resp, err := client.Post(w.url+"/add-checkpoint", "", strings.NewReader(l.grow(t, known, to)))
				got := read(t, resp, err)
				mu.Lock()
				switch got.status {
				case 200:
					accepted[to]++
					known = to
				case 409:
					conflicts++
					now, err := strconv.ParseUint(strings.TrimSuffix(got.body, "\n"), 10, 64)
					if err != nil || got.header.Get("Content-Type") != SizeType || now <= known {
						t.Errorf("409 says %q to old %d: %v", got.body, known, err)
						now = most
					}
					known = now
				default:
					t.Errorf("%d: %s", got.status, got.body)
					known = most
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for size, n := range accepted {
		if n != 1 {
			t.Errorf("%d clients were told that they grew the log to %d", n, size)
		}
	}
	if now, _ := w.store.Latest(origin); now.Checkpoint.Size != most {
		t.Errorf("latest is %d", now.Checkpoint.Size)
	}
	if conflicts == 0 {
		t.Error("no conflict: nothing was tried")
	}
	if n := w.store.EvidenceCount(); n != 0 {
		t.Errorf("%d accusations of an honest log", n)
	}
}

// TestLOG08_HostileNotes: what is not one well-formed note is refused without a
// word about the log, changes nothing, and does not count as a request.
func TestLOG08_HostileNotes(t *testing.T) {
	l := newLog(t, origin, 40, 40, "")
	w := newWitness(t, 4, l)
	if got := w.post(t, l.grow(t, 0, 10)); got.status != 200 {
		t.Fatal(got)
	}
	before, _ := w.store.Latest(origin)
	good := l.grow(t, 10, 20)
	head, note, _ := strings.Cut(good, "\n\n")
	for name, test := range map[string]struct {
		body   string
		status int
	}{
		"1,000 signature lines":        {good + strings.Repeat("— x AAAAAAAA\n", 1000), 400},
		"signature line of 400 kB":     {good + "— x " + strings.Repeat("AAAA", 100_000) + "\n", 400},
		"line of a megabyte":           {"old " + strings.Repeat("1", 1<<20) + "\n\n" + note, 413},
		"origin of 400 kB":             {head + "\n\n" + strings.Repeat("x", 400_000) + note, 404},
		"proof lines without end":      {head + strings.Repeat("\n"+strings.Repeat("A", 43)+"=", 8000) + "\n\n" + note, 400},
		"nothing but newlines":         {strings.Repeat("\n", 500_000), 400},
		"leading zero in old":          {strings.Replace(good, "old 10", "old 010", 1), 400},
		"leading zero in size":         {strings.Replace(good, "\n20\n", "\n020\n", 1), 400},
		"CR LF":                        {strings.ReplaceAll(good, "\n", "\r\n"), 400},
		"CR LF in the note alone":      {head + "\n\n" + strings.ReplaceAll(note, "\n", "\r\n"), 400},
		"extension line not signed":    {strings.Replace(good, "=\n\n—", "=\nmore\n\n—", 1), 403},
		"ten thousand extension lines": {strings.Replace(good, "=\n\n—", "=\n"+strings.Repeat("more\n", 10_000)+"\n—", 1), 403},
		"byte order mark":              {"\ufeff" + good, 400},
		"NUL":                          {strings.Replace(good, "\n20\n", "\n20\x00\n", 1), 400},
	} {
		if test.body == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		got := w.post(t, test.body)
		if got.status != test.status {
			t.Errorf("%s: %d, want %d: %.200s", name, got.status, test.status, got.body)
		}
		if len(got.body) > 1000 {
			t.Errorf("%s: the answer has %d bytes", name, len(got.body))
		}
	}
	if now, _ := w.store.Latest(origin); now != before {
		t.Error("the state changed")
	}
	for range 3 { // of 4 a day, the first is used
		if got := w.post(t, l.grow(t, 10, 10)); got.status != 200 {
			t.Errorf("after all that: %+v", got)
		}
	}
}

// TestLOG08_ExtensionLinesAreCosigned: they are part of what is signed, and are
// served as they came.
func TestLOG08_ExtensionLinesAreCosigned(t *testing.T) {
	l := newLog(t, origin, 40, 40, "")
	w := newWitness(t, 4, l)
	signed := l.sign(t, strings.SplitAfter(l.checkpoint(t, 10), "=\n")[0]+"first line\nsecond\n")
	got := w.post(t, "old 0\n\n"+signed)
	if got.status != 200 {
		t.Fatal(got)
	}
	w.verify(t, signed+got.body, l)
	if kept, _ := w.store.Latest(origin); kept.Note != signed+got.body {
		t.Errorf("kept %q", kept.Note)
	}
}
