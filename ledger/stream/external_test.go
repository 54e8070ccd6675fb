package stream

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"counterfoil/internal/testkit/freeport"
)

// QUIET STOP: kill -9 of the NATS server with 1,000 publishes in flight. Each
// message is there once, each tail gets each once, in order; health says no
// meanwhile and yes again afterwards.
func TestLOG14_QuietStop(t *testing.T) {
	t.Parallel()
	const messages = 1000
	dir, port := t.TempDir(), freeport.Row(t, 1)
	k := task{Name: "server", Dir: dir, Port: port}
	srv := run(t, k)
	addr := srv.line(t)
	cfg := urlConfig("nats://" + addr)
	cfg.AckTimeout = 10 * time.Minute // the end of the connection tells, not time
	s := open(t, cfg)
	tail := s.Tail(t.Context(), 1)

	var wg sync.WaitGroup
	var done atomic.Int32
	half := make(chan struct{})
	for i := range messages {
		wg.Go(func() {
			// A shard for every four messages, so that decisions do race.
			shard, body := i%250, fmt.Append(nil, "message ", i)
			for {
				last, err := s.LastSeq(t.Context(), filter(shard))
				if err == nil {
					// A caller that does not know looks first.
					if found, ferr := holds(t, s, shard, string(body)); ferr == nil && found {
						break
					} else if ferr != nil {
						err = ferr
					}
				}
				if err == nil {
					_, err = s.Publish(t.Context(), Msg{subject("a", "b", shard), body}, filter(shard), last)
				}
				if err == nil {
					break
				}
				var wrong *WrongLastError
				if !errors.As(err, &wrong) && !errors.Is(err, ErrUnanswered) && !errors.Is(err, ErrUnavailable) {
					t.Errorf("message %d: %v", i, err)
					break
				}
				s.pause(t.Context(), 5*time.Millisecond)
			}
			if done.Add(1) == messages/4 {
				close(half)
			}
		})
	}
	<-half
	srv.kill()
	until(t, "unhealthy", func() bool { return s.Healthy(t.Context()) != nil })
	run(t, k).line(t)
	wg.Wait()
	seen := map[string]int{}
	for next := uint64(1); len(seen) < messages; {
		msgs, err := tail.Next(t.Context(), 100)
		must(t, err)
		for _, m := range msgs {
			if m.Seq != next {
				t.Fatalf("got %d, expected %d", m.Seq, next)
			}
			next++
			if seen[string(m.Body)]++; seen[string(m.Body)] > 1 {
				t.Fatalf("%q is there twice", m.Body)
			}
		}
	}
	if st, err := s.State(t.Context()); err != nil || st != (State{1, messages, messages, 0}) {
		t.Errorf("state %+v, %v", st, err)
	}
	until(t, "healthy again", func() bool { return s.Healthy(t.Context()) == nil })
}

// holds tells whether a shard has a message with this body.
func holds(t testing.TB, s *Stream, shard int, body string) (bool, error) {
	for seq := uint64(1); ; {
		m, err := s.getFromLeader(t.Context(), messageRequest{Seq: seq, NextFor: filter(shard)})
		switch {
		case errors.Is(err, ErrNotFound):
			return false, nil
		case err != nil:
			return false, err
		case string(m.Body) == body:
			return true, nil
		}
		seq = m.Seq + 1
	}
}

// An external server that comes back with an older store: noticed before
// anything is published, and healed.
func TestDUR_ExternalServerGoesBack(t *testing.T) {
	t.Parallel()
	all := makeLeaves(40, 50)
	for _, tc := range []struct {
		name   string
		before int // messages in the store that comes back
	}{{"older", 25}, {"empty", 0}} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			port := freeport.Row(t, 1)
			start := func() *server.Server {
				srv, err := server.NewServer(externalOptions(filepath.Join(dir, "store"), port))
				must(t, err)
				srv.Start()
				if !srv.ReadyForConnections(startTimeout) {
					t.Fatal("server is not ready")
				}
				return srv
			}
			srv := start()
			s := open(t, urlConfig(srv.ClientURL()))
			fill(t, s, all[:tc.before])
			shutdown(srv)
			if tc.before > 0 {
				must(t, os.CopyFS(filepath.Join(dir, "old"), os.DirFS(filepath.Join(dir, "store"))))
			}
			srv = start()
			until(t, "checked", func() bool { return s.Healthy(t.Context()) == nil })
			w := s.window()
			for i, b := range all[tc.before:] {
				must(t, w.put(t.Context(), Msg{leafSubject(b), b}, uint64(tc.before+i+1)))
			}
			must(t, w.flush(t.Context()))
			tail := s.Tail(t.Context(), 1)
			read(t, tail, 1, 40, 100)

			shutdown(srv)
			must(t, os.RemoveAll(filepath.Join(dir, "store")))
			if tc.before > 0 {
				must(t, os.Rename(filepath.Join(dir, "old"), filepath.Join(dir, "store")))
			}
			srv = start()
			t.Cleanup(func() { shutdown(srv) })
			until(t, "rewound", func() bool {
				_, err := s.Publish(t.Context(), Msg{subject("a", "b", 77), []byte("x")}, filter(77), 0)
				if err == nil {
					t.Fatal("published to a stream that went back")
				}
				return errors.Is(err, ErrRewound)
			})
			if _, err := tail.Next(t.Context(), 1); !errors.Is(err, ErrRewound) {
				t.Errorf("tail: %v", err)
			}
			r := mustHeal(t, s, healConfig(all, t.TempDir()))
			if r.Action != Refilled || r.Republished != uint64(40-tc.before) {
				t.Errorf("report %+v", r)
			}
			mustHold(t, s, all)
			must(t, s.Healthy(t.Context()))
		})
	}
}

// A cluster of three: one filter string, so that races are decided also between
// writes in flight; and the loss of a leader loses nothing.
func TestLOG03_Cluster(t *testing.T) {
	t.Parallel()
	servers := make([]*server.Server, 3)
	ports := []int{freeport.Row(t, 1), freeport.Row(t, 1), freeport.Row(t, 1)}
	var routes []*url.URL
	for _, p := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprint("127.0.0.1:", p)})
	}
	var urls []string
	for i := range servers {
		o := externalOptions(t.TempDir(), server.RANDOM_PORT)
		o.ServerName = fmt.Sprint("n", i)
		o.Cluster = server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]}
		o.Routes = routes
		srv, err := server.NewServer(o)
		must(t, err)
		srv.Start()
		servers[i] = srv
		t.Cleanup(func() { shutdown(srv) })
	}
	for _, srv := range servers {
		if !srv.ReadyForConnections(startTimeout) {
			t.Fatal("server is not ready")
		}
		urls = append(urls, srv.ClientURL())
	}
	until(t, "the cluster has a leader and three members", func() bool {
		for _, srv := range servers {
			if srv.JetStreamIsLeader() && len(srv.JetStreamClusterPeers()) == 3 {
				return true
			}
		}
		return false
	})
	cfg := urlConfig(strings.Join(urls, ","))
	cfg.Replicas = 3
	s := open(t, cfg)
	other := open(t, cfg) // another intake
	tail := other.Tail(t.Context(), 1)
	var wg sync.WaitGroup
	var stored atomic.Int32
	const shards, each, writers = 4, 50, 4
	half := make(chan struct{})
	for shard := range shards {
		for w := range writers {
			wg.Go(func() {
				in := []*Stream{s, other}[w%2]
				var last uint64
				for n := 0; n < each; {
					seq, err := in.Publish(t.Context(), Msg{subject(fmt.Sprint("k", w), "b", shard), fmt.Append(nil, shard, w, n)}, filter(shard), last)
					var wrong *WrongLastError
					switch {
					case err == nil:
						last = seq
						n++
						if stored.Add(1) == shards*each*writers/2 {
							close(half)
						}
					case errors.As(err, &wrong):
						if last = wrong.Last; last == 0 {
							if last, err = in.LastSeq(t.Context(), filter(shard)); err != nil {
								in.pause(t.Context(), 5*time.Millisecond) // the next publish asks again
							}
						}
					case errors.Is(err, ErrUnanswered), errors.Is(err, ErrUnavailable):
						in.pause(t.Context(), 5*time.Millisecond)
					default:
						t.Error(err)
						return
					}
				}
			})
		}
	}
	<-half
	// One that leads the stream goes down.
	for _, srv := range servers {
		if acc, err := srv.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT); err == nil && acc.JetStreamIsStreamLeader(DefaultName) {
			shutdown(srv)
			break
		}
	}
	wg.Wait()
	st, err := s.State(t.Context())
	must(t, err)
	// What was unanswered may be there beside its repetition.
	if st.First != 1 || st.Deleted != 0 || st.Last < shards*each*writers {
		t.Fatalf("state %+v", st)
	}
	read(t, tail, 1, st.Last, 500)
	// Within a shard every message was decided on the one before.
	last := map[string]uint64{}
	must(t, s.scan(t.Context(), 1, st.Last, func(seq uint64, m *Message) error {
		if m == nil {
			return fmt.Errorf("message %d is missing", seq)
		}
		shard := m.Subject[len(m.Subject)-2:]
		raw, err := s.request(t.Context(), "$JS.API.DIRECT.GET."+DefaultName, fmt.Appendf(nil, `{"seq":%d}`, seq))
		if err != nil {
			return err
		}
		if got := raw.Header.Get(headerExpectShardLast); got != fmt.Sprint(last[shard]) {
			return fmt.Errorf("message %d of shard %s was decided on %s, expected %d", seq, shard, got, last[shard])
		}
		last[shard] = seq
		return nil
	}))
}

// A credentials file opens a server that asks for one.
func TestLOG01_CredentialsFile(t *testing.T) {
	operator, err := nkeys.CreateOperator()
	must(t, err)
	operatorKey, err := operator.PublicKey()
	must(t, err)
	acc, err := nkeys.CreateAccount()
	must(t, err)
	accKey, err := acc.PublicKey()
	must(t, err)
	claims := jwt.NewAccountClaims(accKey)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1}
	accJWT, err := claims.Encode(operator)
	must(t, err)
	sys, err := nkeys.CreateAccount()
	must(t, err)
	sysKey, err := sys.PublicKey()
	must(t, err)
	sysJWT, err := jwt.NewAccountClaims(sysKey).Encode(operator)
	must(t, err)
	user, err := nkeys.CreateUser()
	must(t, err)
	userKey, err := user.PublicKey()
	must(t, err)
	userJWT, err := jwt.NewUserClaims(userKey).Encode(acc)
	must(t, err)
	seed, err := user.Seed()
	must(t, err)
	creds, err := jwt.FormatUserConfig(userJWT, seed)
	must(t, err)
	file := filepath.Join(t.TempDir(), "user.creds")
	must(t, os.WriteFile(file, creds, 0o600))

	o := externalOptions(t.TempDir(), server.RANDOM_PORT)
	o.TrustedKeys = []string{operatorKey}
	o.SystemAccount = sysKey
	resolver := &server.MemAccResolver{}
	must(t, resolver.Store(accKey, accJWT))
	must(t, resolver.Store(sysKey, sysJWT))
	o.AccountResolver = resolver
	srv, err := server.NewServer(o)
	must(t, err)
	srv.Start()
	t.Cleanup(func() { shutdown(srv) })
	if !srv.ReadyForConnections(startTimeout) {
		t.Fatal("server is not ready")
	}
	cfg := urlConfig(srv.ClientURL())
	if _, err := Open(t.Context(), cfg); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without credentials: %v", err)
	}
	cfg.CredsFile = file
	s := open(t, cfg)
	mustPublish(t, s, 1, "x", 0)
	cfg.CredsFile = filepath.Join(t.TempDir(), "missing.creds")
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "missing.creds") {
		t.Errorf("missing file: %v", err)
	}
}
