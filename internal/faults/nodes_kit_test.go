package faults

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	osignal "os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"counterfoil/internal/app"
	"counterfoil/internal/testkit/freeport"
	"counterfoil/internal/testkit/fsck"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
)

// nodes are three real processes of one ledger. Each reaches the others through
// wires of the test's, which can be cut.
type nodes struct {
	t     testing.TB
	dir   string
	listn [3]string   // where each takes the others
	wires [3][3]*wire // from, to
	env   [3][]string // further environment of each
	prog  [3]string   // program of each; "" for the one under test
	home  [3]string   // data directories

	mu sync.Mutex
	p  [3]*process

	seen  *checkpoints
	watch func() // ends the watching
}

// prepareNodes makes three directories and starts nothing.
func prepareNodes(t testing.TB) *nodes {
	t.Helper()
	return prepareNodesAt(t, nil)
}

// prepareNodesAt is prepareNodes with the directories of some given.
func prepareNodesAt(t testing.TB, at map[int]string) *nodes {
	t.Helper()
	ns := &nodes{t: t, dir: t.TempDir(), seen: &checkpoints{}}
	t.Cleanup(func() {
		if t.Failed() {
			ns.showLogs()
		}
	})
	for i := range 3 {
		ns.listn[i], ns.home[i] = freeport.Addr(t), filepath.Join(ns.dir, "n"+strconv.Itoa(i+1))
		if dir := at[i]; dir != "" {
			ns.home[i] = dir
		}
	}
	for i := range 3 {
		for j := range 3 {
			if i != j {
				ns.wires[i][j] = newWire(t, ns.listn[j])
			}
		}
	}
	out, err := exec.Command(binary, "node", "prepare", "--data", ns.home[0], "--origin", "example.com/nodes", "--out", ns.home[1], "--out", ns.home[2]).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return ns
}

func startNodes(t testing.TB) *nodes {
	t.Helper()
	ns := prepareNodes(t)
	ns.startAll()
	return ns
}

func (ns *nodes) startAll() {
	ns.t.Helper()
	var starting sync.WaitGroup
	for i := range 3 {
		starting.Go(func() { ns.start(i) })
	}
	starting.Wait()
	if ns.t.Failed() {
		ns.t.FailNow()
	}
	if ns.watch == nil {
		ctx, cancel := context.WithCancel(context.Background())
		var watching sync.WaitGroup
		for i := range 3 {
			watching.Go(func() { ns.look(ctx, i) })
		}
		ns.watch = func() { cancel(); watching.Wait() }
		ns.t.Cleanup(ns.watch)
	}
}

func (ns *nodes) args(i int) []string {
	var routes []string
	for j, w := range ns.wires[i] {
		if j != i {
			routes = append(routes, w.addr)
		}
	}
	return []string{"serve", "--data", ns.home[i], "--listen", "127.0.0.1:0", "--cluster-name", "faults", "--node", "n" + strconv.Itoa(i+1),
		// What nodes tell one another would lead around the wires.
		"--cluster-listen", ns.listn[i], "--cluster-advertise", nowhere, "--routes", strings.Join(routes, ",")}
}

func (ns *nodes) start(i int) {
	if err := ns.startErr(i); err != nil {
		ns.t.Errorf("node %d: %v", i+1, err)
	}
}

func (ns *nodes) startErr(i int) error {
	cmd := exec.Command(binary, ns.args(i)...)
	if ns.prog[i] != "" {
		cmd = exec.Command(ns.prog[i], ns.args(i)...)
	}
	cmd.Env = append(os.Environ(), ns.env[i]...)
	p, err := startCommand(ns.t, ns.home[i], cmd)
	if err != nil {
		return err
	}
	p.client.Timeout = 40 * time.Second
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.p[i] = p
	return nil
}

// node is a node while it runs, nil otherwise.
func (ns *nodes) node(i int) *process {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if p := ns.p[i]; p != nil && !p.over() {
		return p
	}
	return nil
}

func (ns *nodes) kill(i int, sig os.Signal) {
	if p := ns.node(i); p != nil {
		p.kill(sig)
	}
}

// cut cuts a node off from the others, or mends that.
func (ns *nodes) cut(i int, cut bool) {
	for j := range 3 {
		if j != i {
			ns.wires[i][j].set(cut)
			ns.wires[j][i].set(cut)
		}
	}
}

type clusterState struct {
	Node      string `json:"node"`
	Signer    string `json:"signer"`
	Epoch     uint64 `json:"epoch"`
	GuardSize uint64 `json:"guardSize"`
}

// signer is the index of the node that signs, by its own word and that of another.
func (ns *nodes) signer(not ...int) (index int) {
	ns.t.Helper()
	eventually(ns.t, "a node signs", func() bool {
		votes := map[string]int{}
		for i := range 3 {
			if p := ns.node(i); p != nil && !slices.Contains(not, i) {
				var c clusterState
				if code, b, err := p.call(http.MethodGet, "/v1/cluster", nil); err == nil && code == http.StatusOK && json.Unmarshal(b, &c) == nil {
					votes[c.Signer]++
				}
			}
		}
		for name, n := range votes {
			i, err := strconv.Atoi(strings.TrimPrefix(name, "n"))
			if err == nil && n >= 2 && !slices.Contains(not, i-1) {
				index = i - 1
				return true
			}
		}
		return false
	})
	return index
}

// calls are clients that send to any node, and to the next one when that does not
// take it, the same again until it is acknowledged.
type calls struct {
	ns      *nodes
	got     *acks
	stop    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup
	mu      sync.Mutex
	longest time.Duration
	pauses  []time.Duration // over 500 ms
	sent    int
}

func (ns *nodes) load(name string, clients int) *calls {
	c := &calls{ns: ns, got: &acks{all: map[string]receipt{}}, stop: make(chan struct{})}
	ns.loadInto(c, name, clients)
	ns.t.Cleanup(c.halt)
	return c
}

func (ns *nodes) loadInto(c *calls, name string, clients int) {
	for w := range clients {
		c.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.stop:
					return
				default:
				}
				r, ok := c.send((w+i)%3, "/v1/attempts", beginBody(fmt.Sprintf("%s-%d-%d", name, w, i)))
				if ok && i%2 == 0 {
					c.send((w+i+1)%3, "/v1/attempts/"+r.AttemptID+"/events", outcomeBody(r.AttemptID, "succeeded"))
				}
			}
		})
	}
}

// patience is how long a client tries one event.
const patience = 90 * time.Second

func (c *calls) send(at int, path string, body []byte) (receipt, bool) {
	begun := time.Now()
	for n := at; ; n++ {
		if p := c.ns.node(n % 3); p != nil {
			code, answer, err := p.call(http.MethodPost, path, body)
			switch {
			case err == nil && (code == http.StatusCreated || code == http.StatusOK):
				r := parseReceipt(c.ns.t, answer)
				c.took(time.Since(begun))
				c.got.add(r)
				return r, true
			case err == nil && code < 500:
				c.ns.t.Errorf("%s node %d after %v: %.200s: status %d %s", time.Now().Format("05.000"), n%3+1, time.Since(begun), body, code, answer)
				return receipt{}, false
			}
		}
		select {
		case <-c.stop:
			if c.ns.t.Failed() {
				return receipt{}, false // nobody waits for it any more
			}
		default:
		}
		if time.Since(begun) > patience {
			c.ns.t.Errorf("%.80s: not taken within %v", body, patience)
			return receipt{}, false
		}
		time.Sleep(20 * time.Millisecond) // as a caller does that is told to come again
	}
}

func (c *calls) took(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent++
	c.longest = max(c.longest, d)
	if d > 500*time.Millisecond {
		c.pauses = append(c.pauses, d)
	}
}

// grown waits until the clients got n acknowledgements more.
func (c *calls) grown(n int) {
	c.ns.t.Helper()
	c.mu.Lock()
	want := c.sent + n
	c.mu.Unlock()
	deadline := time.Now().Add(patience)
	for {
		c.mu.Lock()
		sent := c.sent
		c.mu.Unlock()
		if sent >= want {
			return
		}
		if time.Now().After(deadline) {
			c.ns.t.Fatalf("%d events were taken, waiting for %d", sent, want)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// halt ends the clients.
func (c *calls) halt() {
	c.once.Do(func() { close(c.stop) })
	c.wg.Wait()
}

func (c *calls) end() {
	c.halt()
	slices.Sort(c.pauses)
	if n := len(c.pauses); n > 0 {
		c.ns.t.Logf("%d events; %d waited for more than 0.5 s, the longest %v, half of those under %v", c.sent, n, c.longest.Round(time.Millisecond), c.pauses[n/2].Round(time.Millisecond))
	} else {
		c.ns.t.Logf("%d events, the longest wait %v", c.sent, c.longest.Round(time.Millisecond))
	}
}

// checkpoints are all that any node ever served, in the order of each.
type checkpoints struct {
	mu   sync.Mutex
	all  map[string]trust.Checkpoint // by root and size
	last [3]uint64
}

// look reads a node's checkpoint again and again. A node never serves an older one
// after a newer, also over its restarts.
func (ns *nodes) look(ctx context.Context, i int) {
	client := &http.Client{Timeout: 2 * time.Second}
	for ctx.Err() == nil {
		if p := ns.node(i); p != nil {
			ns.lookOnce(client, p, i)
		}
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Millisecond):
		}
	}
}

func (ns *nodes) lookOnce(client *http.Client, p *process, i int) {
	res, err := client.Get(p.url + "/log/checkpoint")
	if err != nil {
		return // it is down, or stopped
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil || res.StatusCode != http.StatusOK {
		return
	}
	note, err := trust.ParseNote(raw)
	if err != nil {
		ns.t.Errorf("node %d: checkpoint %q: %v", i+1, raw, err)
		return
	}
	cp, err := trust.ParseCheckpoint(note.Text)
	if err != nil {
		ns.t.Errorf("node %d: checkpoint %q: %v", i+1, raw, err)
		return
	}
	s := ns.seen
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]trust.Checkpoint{}
	}
	s.all[fmt.Sprintf("%d %x", cp.Size, cp.Root)] = cp
	if cp.Size < s.last[i] {
		ns.t.Errorf("node %d serves size %d after %d", i+1, cp.Size, s.last[i])
	}
	s.last[i] = max(s.last[i], cp.Size)
}

// whole ends the load and demands that nothing is lost: every acknowledged event at
// its index on every node, nothing twice, equal trees, one history behind all
// checkpoints that were ever served, logs that Tessera's own check accepts.
func (ns *nodes) whole(c *calls) {
	t := ns.t.(*testing.T)
	t.Helper()
	c.end()
	for i := range 3 {
		if ns.node(i) == nil {
			ns.start(i)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
	var size uint64
	eventually(t, "all nodes published the whole stream", func() bool {
		sizes := map[uint64]bool{}
		for i := range 3 {
			st := ns.node(i).settled()
			sizes[st.PublishedSize], sizes[st.StreamLast], sizes[st.LogSize] = true, true, true
			size = st.PublishedSize
		}
		return len(sizes) == 1
	})
	for i := range 3 {
		c.got.check(t, ns.node(i))
	}
	ns.oneHistory(size)
	vkey := trustVKey(t, ns.node(0))
	for i := range 3 {
		ns.node(i).stop()
		fsck.Check(t, filepath.Join(ns.home[i], "log"), "example.com/nodes", vkey)
	}
}

func (ns *nodes) showLogs() {
	for i, p := range ns.p {
		if p != nil {
			if dir := os.Getenv("COUNTERFOIL_NODE_LOGS"); dir != "" {
				_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("n%d.log", i+1)), p.stderr.Bytes(), 0o600)
			}
			ns.t.Logf("node %d: %s", i+1, tail(p.stderr.String()))
		}
	}
}

// oneHistory proves every checkpoint that was served to be the beginning of each
// node's tree.
func (ns *nodes) oneHistory(size uint64) {
	ns.t.Helper()
	ns.seen.mu.Lock()
	defer ns.seen.mu.Unlock()
	for i := range 3 {
		r := tiles.NewReader(tiles.Dir(filepath.Join(ns.home[i], "log")), tiles.Options{})
		root, err := r.Root(ns.t.Context(), size)
		if err != nil {
			ns.t.Fatal(err)
		}
		for _, cp := range ns.seen.all {
			hashes, err := r.Consistency(ns.t.Context(), cp.Size, size)
			if err == nil {
				err = proof.VerifyConsistency(rfc6962.DefaultHasher, cp.Size, size, hashes, cp.Root[:], root[:])
			}
			if err != nil && cp.Size > 0 {
				ns.t.Errorf("node %d: the checkpoint of size %d that was served is not the beginning of the tree of size %d: %v", i+1, cp.Size, size, err)
			}
		}
	}
	ns.t.Logf("%d checkpoints were served, all of one history of %d leaves", len(ns.seen.all), size)
}

// wire carries connections to an address until it is cut.
type wire struct {
	addr string

	mu    sync.Mutex
	isCut bool
	open  map[net.Conn]bool
}

// nowhere is an address that nobody answers at.
const nowhere = "127.0.0.1:1"

func newWire(t testing.TB, to string) *wire {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{addr: ln.Addr().String(), open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = ln.Close(); w.set(true) })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			go w.carry(in, to)
		}
	}()
	return w
}

func (w *wire) carry(in net.Conn, to string) {
	defer in.Close()
	out, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer out.Close()
	w.mu.Lock()
	if w.isCut {
		w.mu.Unlock()
		return
	}
	w.open[in], w.open[out] = true, true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.open, in)
		delete(w.open, out)
		w.mu.Unlock()
	}()
	done := make(chan struct{}, 2)
	for _, d := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(d[0], d[1])
			done <- struct{}{}
		}()
	}
	<-done
}

// set cuts the wire, with what is on it, or mends it.
func (w *wire) set(cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.isCut = cut
	if cut {
		for c := range w.open {
			_ = c.Close()
		}
	}
}

// nodeClockVar says to the test binary that it is a node whose clock is off.
const nodeClockVar = "COUNTERFOIL_FAULTS_NODE"

type clockedNode struct {
	Offset  time.Duration
	Dir     string
	Cluster app.Cluster
}

// clocked makes a node run with a clock that is off.
func (ns *nodes) clocked(i int, offset time.Duration) {
	spec := clockedNode{Offset: offset, Dir: ns.home[i], Cluster: app.Cluster{Name: "faults", Node: "n" + strconv.Itoa(i+1), Listen: ns.listn[i], Advertise: nowhere}}
	for j, w := range ns.wires[i] {
		if j != i {
			spec.Cluster.Routes = append(spec.Cluster.Routes, w.addr)
		}
	}
	b, err := json.Marshal(spec)
	if err != nil {
		ns.t.Fatal(err)
	}
	ns.prog[i], ns.env[i] = os.Args[0], []string{nodeClockVar + "=" + string(b)}
}

// nodeChild runs that node and never returns, if this process is one.
func nodeChild() {
	raw := os.Getenv(nodeClockVar)
	if raw == "" {
		return
	}
	var spec clockedNode
	err := json.Unmarshal([]byte(raw), &spec)
	if err == nil {
		ctx, stop := osignal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		err = app.Serve(ctx, app.Config{
			Dir: spec.Dir, Cluster: &spec.Cluster, Listen: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(os.Stderr, nil)), Random: rand.Reader,
			Now: func() time.Time { return time.Now().Add(spec.Offset) },
		}, func(ready app.Ready) error { return json.NewEncoder(os.Stdout).Encode(ready) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
