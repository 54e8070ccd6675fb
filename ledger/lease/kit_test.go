package lease

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/trust"
)

const origin = "log.test/one"

var (
	errLost     = errors.New("no answer")
	errRevision = errors.New("another wrote first")
)

// memory is a register with real compare-and-set. It keeps every value that it
// ever took.
type memory struct {
	mu       sync.Mutex
	history  []stored
	sequence uint64 // of the whole bucket: revisions have holes
	changed  chan struct{}
	accepted func(before, after stored) // sees every write that was taken
}

type stored struct {
	value    []byte
	revision uint64
}

func newMemory() *memory { return &memory{changed: make(chan struct{})} }

func (m *memory) last() stored {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastLocked()
}

func (m *memory) lastLocked() stored {
	if len(m.history) == 0 {
		return stored{}
	}
	return m.history[len(m.history)-1]
}

// set stores a value if the revision is the expected one.
func (m *memory) set(value []byte, expect uint64) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.lastLocked()
	if before.revision != expect {
		return 0, fmt.Errorf("%w: revision %d, expected %d", errRevision, before.revision, expect)
	}
	m.sequence += 2
	after := stored{bytes.Clone(value), m.sequence}
	if m.accepted != nil {
		m.accepted(before, after)
	}
	m.history = append(m.history, after)
	close(m.changed)
	m.changed = make(chan struct{})
	return after.revision, nil
}

// forge puts a value there whatever was there.
func (m *memory) forge(value []byte) {
	_, _ = m.set(value, m.last().revision)
}

// lose makes the register one that was never written.
func (m *memory) lose() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history, m.sequence = nil, 0
}

func (m *memory) record(t testing.TB) Record {
	t.Helper()
	r, err := Parse(m.last().value)
	if err != nil {
		t.Fatalf("the register holds %q: %v", m.last().value, err)
	}
	return r
}

// link is one node's way to the register, on which things go wrong.
type link struct {
	m    *memory
	mu   sync.Mutex
	put  func(set func() (uint64, error)) (uint64, error) // nil: as it is
	get  func() error                                     // an error instead of an answer
	deaf bool                                             // Watch shows nothing
	puts int
	gets int
}

func (l *link) Get(ctx context.Context) ([]byte, uint64, error) {
	l.mu.Lock()
	l.gets++
	get := l.get
	l.mu.Unlock()
	if get != nil {
		if err := get(); err != nil {
			return nil, 0, err
		}
	}
	s := l.m.last()
	return bytes.Clone(s.value), s.revision, ctx.Err()
}

func (l *link) Put(ctx context.Context, value []byte, expect uint64) (uint64, error) {
	l.mu.Lock()
	l.puts++
	put := l.put
	l.mu.Unlock()
	value = bytes.Clone(value)
	set := func() (uint64, error) { return l.m.set(value, expect) }
	if put != nil {
		return put(set)
	}
	return set()
}

func (l *link) Watch(ctx context.Context, f func([]byte, uint64) error) error {
	told := uint64(0)
	for {
		l.m.mu.Lock()
		s, changed := l.m.lastLocked(), l.m.changed
		l.m.mu.Unlock()
		l.mu.Lock()
		deaf := l.deaf
		l.mu.Unlock()
		if s.revision > told && !deaf {
			told = s.revision
			if err := f(bytes.Clone(s.value), s.revision); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// cut lets nothing through any more.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf = true
	l.get = func() error { return errLost }
	l.put = func(func() (uint64, error)) (uint64, error) { return 0, errLost }
}

func (l *link) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deaf, l.get, l.put = false, nil, nil
}

// onPut and onGet change what the link does.
func (l *link) onPut(f func(set func() (uint64, error)) (uint64, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put = f
}

func (l *link) onGet(f func() error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.get = f
}

// keys of the log that all nodes share.
type keys struct {
	signer note.Signer
	vkey   trust.VerifierKey
}

func newKeys(t testing.TB) keys {
	t.Helper()
	skey, vkey, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		t.Fatal(err)
	}
	k, err := trust.ParseVerifierKey(vkey)
	if err != nil {
		t.Fatal(err)
	}
	return keys{signer, k}
}

func (k keys) sign(text string) []byte {
	b, err := note.Sign(&note.Note{Text: text}, k.signer)
	if err != nil {
		panic(err)
	}
	return b
}

// checkpoint is the note of a tree.
func (k keys) checkpoint(g Guard) []byte {
	return k.sign(trust.Checkpoint{Origin: origin, Size: g.Size, Root: g.Root}.Text())
}

// leaves are the trees of a history, which others may share up to a fork.
type leaves struct {
	mu   sync.Mutex
	tree *testonly.Tree
	fork uint64 // first leaf that is another one; 0: none
}

func newLeaves(fork uint64) *leaves {
	return &leaves{tree: testonly.New(rfc6962.DefaultHasher), fork: fork}
}

func (l *leaves) at(size uint64) Guard {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := l.tree.Size(); i < size; i++ {
		l.tree.AppendData(l.leaf(i))
	}
	return Guard{size, [32]byte(l.tree.HashAt(size))}
}

func (l *leaves) leaf(index uint64) []byte {
	return fmt.Appendf(nil, "leaf %d %v", index, l.fork > 0 && index >= l.fork)
}

// log is a node's own log as a lease sees it.
type log struct {
	leaves *leaves
	keys   keys

	mu    sync.Mutex
	size  uint64 // durable
	guard uint64 // size of the own guard
	note  []byte // newest checkpoint
	unfit bool
}

var errOther error = finalError("another root")

func (l *log) contains(_ context.Context, size uint64, root [32]byte) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if size > l.size {
		return false, nil
	}
	if has := l.leaves.at(size); has.Root != root {
		return false, fmt.Errorf("%w: %s, compared with %x", errOther, has, root)
	}
	return true, nil
}

func (l *log) own() (Guard, []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leaves.at(l.guard), l.note
}

func (l *log) fit() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.unfit
}

func (l *log) set(size, guard uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size, l.guard = size, guard
}

// become makes it another log.
func (l *log) become(other *leaves) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaves = other
}

// config is a node's.
func (l *log) config(name string, r Register) Config {
	return Config{
		Register: r, Node: name, Origin: origin, LogKey: l.keys.vkey,
		Contains: l.contains, Own: l.own, Fit: l.fit, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// node is a lease that a test drives step by step, by a clock of its own.
type node struct {
	*Lease
	log   *log
	link  *link
	name  string
	clock time.Time
}

func newNode(t testing.TB, m *memory, k keys, name string, size uint64) *node {
	n := &node{log: &log{leaves: newLeaves(0), keys: k, size: size}, link: &link{m: m}, name: name, clock: time.Now()}
	n.restart(t)
	return n
}

// restart makes the lease of a new process.
func (n *node) restart(t interface {
	Helper()
	Fatal(...any)
}) {
	t.Helper()
	cfg := n.log.config(n.name, n.link)
	cfg.now = func() time.Time { return n.clock }
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.Lease = l
}

// steps lets the node do what is due, a few times.
func (n *node) steps(t testing.TB) {
	t.Helper()
	for range 4 {
		if _, err := n.step(context.Background()); err != nil {
			t.Fatalf("node %s: %v", n.name, err)
		}
	}
}

// hold makes the node the holder.
func (n *node) hold(t testing.TB) {
	t.Helper()
	n.steps(t)
	n.clock = n.clock.Add(n.cfg.TTL)
	n.steps(t)
	if !n.Held() {
		t.Fatalf("node %s does not hold the lease: %+v", n.name, n.last)
	}
}

func (n *node) guardAt(size uint64) Guard { return n.log.leaves.at(size) }

func (n *node) reserve(size uint64) error {
	g := n.guardAt(size)
	return n.Reserve(context.Background(), g.Size, g.Root)
}

func (n *node) publish(size uint64) error {
	return n.Publish(context.Background(), n.log.keys.checkpoint(n.guardAt(size)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func is(t testing.TB, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
}

// hanging is a register that gives no answer at all for a while.
type hanging struct {
	*link
	hangs atomic.Bool
}

func (h *hanging) Get(ctx context.Context) ([]byte, uint64, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return nil, 0, ctx.Err()
	}
	return h.link.Get(ctx)
}

func (h *hanging) Put(ctx context.Context, value []byte, expect uint64) (uint64, error) {
	if h.hangs.Load() {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return h.link.Put(ctx, value, expect)
}

// blind is a register whose watch ends at once.
type blind struct{ *link }

func (blind) Watch(context.Context, func([]byte, uint64) error) error { return errLost }
