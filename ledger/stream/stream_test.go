package stream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if bigStore.dir != "" {
			_ = os.RemoveAll(bigStore.dir)
		}
		os.Exit(code)
	}))
}

func testConfig(dir string) Config {
	return Config{Dir: dir, Tenant: "default", Origin: "example.com/test", Fingerprint: "sha256:00"}
}

// open opens an embedded stream that is closed with the test.
func open(t testing.TB, cfg Config) *Stream {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStream(t, s) })
	return s
}

func closeStream(t testing.TB, s *Stream) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func subject(kind, lifecycle string, shard int) string {
	return fmt.Sprintf("counterfoil.v1.default.%s.%s.%02x", kind, lifecycle, shard)
}

func filter(shard int) string { return subject("*", "*", shard) }

func mustPublish(t testing.TB, s *Stream, shard int, body string, last uint64) uint64 {
	t.Helper()
	seq, err := s.Publish(t.Context(), Msg{Subject: subject("tool_action", "attempt", shard), Body: []byte(body)}, filter(shard), last)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

func TestLOG01_PublishReadBack(t *testing.T) {
	s := open(t, testConfig(t.TempDir()))
	tail := s.Tail(t.Context(), 1)
	var last uint64
	for i := range 100 {
		last = mustPublish(t, s, 7, fmt.Sprint("leaf ", i), last)
		if last != uint64(i)+1 {
			t.Fatalf("message %d has sequence %d", i, last)
		}
	}
	for next := uint64(1); next <= 100; {
		msgs, err := tail.Next(t.Context(), 30)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range msgs {
			if want := fmt.Sprint("leaf ", next-1); m.Seq != next || string(m.Body) != want {
				t.Fatalf("got %d %q, expected %d %q", m.Seq, m.Body, next, want)
			}
			next++
		}
	}
	st, err := s.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := (State{First: 1, Last: 100, Messages: 100}); st != want {
		t.Errorf("state %+v, expected %+v", st, want)
	}
	m, err := s.Get(t.Context(), 50)
	if err != nil || string(m.Body) != "leaf 49" || m.Subject != subject("tool_action", "attempt", 7) {
		t.Errorf("message 50: %+v, %v", m, err)
	}
	if _, err := s.Get(t.Context(), 101); !errors.Is(err, ErrNotFound) {
		t.Errorf("message 101: %v, expected ErrNotFound", err)
	}
	if n, err := s.LastSeq(t.Context(), filter(7)); n != 100 || err != nil {
		t.Errorf("last of shard 7: %d, %v", n, err)
	}
	if n, err := s.LastSeq(t.Context(), filter(8)); n != 0 || err != nil {
		t.Errorf("last of shard 8: %d, %v", n, err)
	}
	if s.LastSeen() != 100 {
		t.Errorf("last seen %d", s.LastSeen())
	}
}
