package app

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.done); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// Who sends a header byte by byte, a body that never ends, or nothing, loses the
// connection; who follows a stream keeps it.
func TestSlowClientsDoNotKeepConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		streaming := make(chan struct{})
		s := httpServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/stream" {
				_ = http.NewResponseController(w).Flush()
				<-streaming
				_, _ = io.WriteString(w, "still here")
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
		}))
		l := &pipes{make(chan net.Conn), make(chan struct{})}
		served := make(chan error)
		go func() { served <- s.Serve(l) }()
		began := time.Now()
		closedWithin := func(what string, limit time.Duration, c net.Conn, first string, drip string) {
			t.Helper()
			began := time.Now()
			ended := make(chan time.Duration)
			go func() {
				_, _ = io.Copy(io.Discard, c)
				ended <- time.Since(began)
			}()
			go func() {
				if _, err := io.WriteString(c, first); err != nil {
					return
				}
				for drip != "" {
					time.Sleep(time.Second)
					if _, err := io.WriteString(c, drip); err != nil {
						return
					}
				}
			}()
			if d := <-ended; d > limit {
				t.Errorf("%s: kept for %s of the clock, want at most %s", what, d, limit)
			}
		}
		closedWithin("a header that drips", headerLimit+time.Second, l.dial(), "GET / HTTP/1.1\r\nHost: x\r\nX: ", "x")
		closedWithin("nothing at all", headerLimit+time.Second, l.dial(), "", "")
		closedWithin("half an HTTP/2 preface", headerLimit+time.Second, l.dial(), "PRI * HTTP/2.0\r\n\r\nSM", "")
		closedWithin("a body that drips", 3*time.Minute, l.dial(), "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", "x")
		closedWithin("idle after a request", 3*time.Minute, l.dial(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "")

		c := l.dial()
		if _, err := io.WriteString(c, "GET /stream HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		go func() { time.Sleep(time.Hour); close(streaming) }()
		b, err := io.ReadAll(c)
		if err != nil || !strings.Contains(string(b), "still here") {
			t.Errorf("a stream of an hour: %v %q", err, b)
		}
		if time.Since(began) < time.Hour {
			t.Error("the clock did not go on")
		}
		_ = s.Close()
		<-served
	})
}

func TestHostNames(t *testing.T) {
	for _, c := range []struct{ listen, external, want string }{
		{"127.0.0.1:8480", "", "localhost 127.0.0.1 ::1 127.0.0.1"},
		{"localhost:0", "", "localhost 127.0.0.1 ::1 localhost"},
		{"[::1]:8480", "https://ledger.example:8443/", "localhost 127.0.0.1 ::1 ::1 ledger.example"},
		{"127.0.0.9:1", "", "localhost 127.0.0.1 ::1 127.0.0.9"},
		{"0.0.0.0:8480", "", ""},
		{":8480", "https://ledger.example", ""},
	} {
		names, err := hostNames(c.listen, c.external)
		if err != nil || strings.Join(names, " ") != c.want {
			t.Errorf("%+v: %v %v", c, names, err)
		}
	}
	if _, err := hostNames("127.0.0.1:1", "ledger.example"); err == nil {
		t.Error("an external URL without a scheme")
	}
}
