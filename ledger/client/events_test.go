package client

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func line(n int) string { return fmt.Sprintf(`{"leafIndex":%d,"leafHash":"","treeSize":9}`+"\n", n) }

// follow reads until n events, an error, or the end.
func follow(t *testing.T, c *Client, opts EventsOptions, n int) (got []uint64, failed string) {
	t.Helper()
	for ev, err := range c.Events(t.Context(), opts) {
		if err != nil {
			return got, err.Error()
		}
		if got = append(got, ev.LeafIndex); len(got) == n {
			break
		}
	}
	return got, ""
}

func TestLOG12_EventsResumeAtTheNextIndex(t *testing.T) {
	var asked []string
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		switch len(asked) {
		case 1: // breaks off within a line
			_, _ = io.WriteString(w, line(3)+"\n"+line(4)+line(5)[:10])
		case 2:
			refuse(w, 503, `{"error":{"code":"unavailable","reason":"starting"}}`)
		case 3: // the connection ends without a word
			panic(http.ErrAbortHandler)
		default:
			_, _ = io.WriteString(w, line(5)+line(6))
		}
	})
	interrupted := 0
	got, failed := follow(t, c, EventsOptions{From: 3, Interrupted: func(error, time.Duration) { interrupted++ }}, 4)
	if diff := cmp.Diff([]uint64{3, 4, 5, 6}, got); diff != "" || failed != "" || interrupted < 2 { // the transport repeats a request on a connection that was kept
		t.Errorf("%s, %q, interrupted %d times", diff, failed, interrupted)
	}
	if diff := cmp.Diff([]string{"from=3", "from=5", "from=5", "from=5"}, asked); diff != "" {
		t.Error(diff)
	}
}

func TestLOG12_SilenceIsNotTakenForPeace(t *testing.T) {
	requests := 0
	c, _ := serve(t, Config{Idle: time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		if requests++; requests == 1 {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // silent until the client leaves
			return
		}
		_, _ = io.WriteString(w, line(0))
	})
	got, failed := follow(t, c, EventsOptions{}, 1)
	if len(got) != 1 && !strings.Contains(failed, "silent") { // a slow first answer is silence as well
		t.Errorf("got %v, %q", got, failed)
	}
}

func TestLOG12_EventsEndWithAnError(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"hole", line(0) + line(2), "leaf 2, expected 1"},
		{"repeated", line(0) + line(0), "leaf 0, expected 1"},
		{"no JSON", line(0) + "{\n", "index 1"},
		{"endless line", line(0) + strings.Repeat("x", MaxEventBytes+1), "is over"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cl, pauses := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.answer) })
			got, failed := follow(t, cl, EventsOptions{}, 0)
			if len(got) != 1 || !strings.Contains(failed, c.want) || len(*pauses) != 0 {
				t.Errorf("got %v, %q after %d pauses", got, failed, len(*pauses))
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		requests := 0
		cl, _ := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			if requests++; requests == 1 {
				_, _ = io.WriteString(w, line(0))
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			refuse(w, 500, `{"error":{"code":"internal","reason":"log_damaged","message":"tile/entries/001"}}`)
		})
		if got, failed := follow(t, cl, EventsOptions{Stop: true}, 0); len(got) != 1 || !strings.Contains(failed, "tile/entries/001") || requests != 2 {
			t.Errorf("got %v, %q after %d requests", got, failed, requests)
		}
	})
	t.Run("refused", func(t *testing.T) {
		cl, _ := serve(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			refuse(w, 401, `{"error":{"code":"unauthorized","message":"no"}}`)
		})
		if got, failed := follow(t, cl, EventsOptions{}, 0); len(got) != 0 || failed != "unauthorized: no" {
			t.Errorf("got %v, %q", got, failed)
		}
	})
}

func TestLOG12_EventsStopAtThePublishedSize(t *testing.T) {
	c, _ := serve(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "follow=false&from=1" {
			t.Errorf("query %s", r.URL.RawQuery)
		}
		_, _ = io.WriteString(w, line(1)+line(2))
	})
	if got, failed := follow(t, c, EventsOptions{From: 1, Stop: true}, 0); len(got) != 2 || failed != "" {
		t.Errorf("got %v, %q", got, failed)
	}
}
