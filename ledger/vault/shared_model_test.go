package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"counterfoil/ledger/commit"

	"pgregory.net/rapid"
)

// logModel is what three vaults on one log should hold, whatever happens to them.
type logModel struct {
	t     *rapid.T
	outer *testing.T
	l     *testLog
	name  string
	dirs  int
	nodes []*Vault
	dir   []string
	old   []string // copies of directories, closed

	state  map[int]Privacy
	bodies map[int]map[string][]byte
	refs   map[int]map[byte]bool // roles are contents
}

const modelAttempts = 12

// PRV-01, EVI-12: vaults on one log hold the same rows, and those that the calls
// were for, through any order of calls on any node, at once or one by one, through
// restarts, losses of a vault and old copies of one.
func TestPRV01_VaultsOnOneLogAreEqual(t *testing.T) {
	t.Parallel()
	l := newLog(t)
	var runs atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		m := &logModel{t: rt, outer: t, l: l, name: fmt.Sprint("MODEL", runs.Add(1)),
			state: map[int]Privacy{}, bodies: map[int]map[string][]byte{}, refs: map[int]map[byte]bool{}}
		defer m.close()
		for range 3 {
			dir := m.freshDir()
			m.dir = append(m.dir, dir)
			m.nodes = append(m.nodes, m.join(dir))
		}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			m.step()
		}
		m.check()
	})
}

func (m *logModel) close() {
	for _, v := range m.nodes {
		if v != nil {
			_ = v.Close()
		}
	}
	for i := range m.dirs {
		_ = os.RemoveAll(m.path(i + 1))
	}
}

func (m *logModel) path(n int) string {
	return filepath.Join(filepath.Dir(m.l.dir), fmt.Sprint(m.name, "-", n))
}

func (m *logModel) freshDir() string { m.dirs++; return m.path(m.dirs) }

func (m *logModel) must(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *logModel) join(dir string) *Vault {
	r, err := m.l.s.Rows(m.outer.Context(), m.name)
	m.must(err)
	v, err := Open(dir, testSeal, logged(r))
	m.must(err)
	return v
}

func (m *logModel) step() {
	node := rapid.IntRange(0, len(m.nodes)-1).Draw(m.t, "node")
	switch rapid.IntRange(0, 9).Draw(m.t, "step") {
	case 0: // restart
		m.must(m.nodes[node].Close())
		m.nodes[node] = m.join(m.dir[node])
	case 1: // its vault is lost
		m.must(m.nodes[node].Close())
		m.dir[node] = m.freshDir()
		m.nodes[node] = m.join(m.dir[node])
	case 2: // a copy is made; of an open store it might be of no moment at all
		m.must(m.nodes[node].Close())
		to := m.freshDir()
		m.must(os.CopyFS(to, os.DirFS(m.dir[node])))
		m.old = append(m.old, to)
		m.nodes[node] = m.join(m.dir[node])
	case 3: // a copy comes back
		if len(m.old) == 0 {
			return
		}
		n := rapid.IntRange(0, len(m.old)-1).Draw(m.t, "copy")
		m.must(m.nodes[node].Close())
		m.dir[node] = m.old[n]
		m.old = append(m.old[:n], m.old[n+1:]...)
		m.nodes[node] = m.join(m.dir[node])
	case 4:
		m.check()
	default: // calls at once, each about another attempt
		var wg sync.WaitGroup
		errs := make([]error, len(m.nodes)*2)
		for i, n := range rapid.SliceOfNDistinct(rapid.IntRange(0, modelAttempts-1), 1, len(errs), rapid.ID[int]).Draw(m.t, "attempts") {
			call := m.call(n, m.nodes[(node+i)%len(m.nodes)])
			wg.Go(func() { errs[i] = call() })
		}
		wg.Wait()
		m.must(errors.Join(errs...))
	}
}

// call draws a call about an attempt, notes what it leads to, and returns it.
func (m *logModel) call(n int, v *Vault) func() error {
	id, key := attempt(n)
	if m.state[n] == 0 {
		m.state[n] = Active
		m.bodies[n], m.refs[n] = map[string][]byte{}, map[byte]bool{}
		return func() error { return v.Put(id, key) }
	}
	refused := map[Privacy]error{Redacted: ErrRedacted, Purged: ErrErased}[m.state[n]]
	want := func(err error) error {
		if !errors.Is(err, refused) {
			return fmt.Errorf("attempt %d: %w, want %w", n, err, refused)
		}
		return nil
	}
	switch rapid.IntRange(0, 9).Draw(m.t, "call") {
	case 0, 1, 2, 3:
		slot := fmt.Sprint("s", rapid.IntRange(0, 3).Draw(m.t, "slot"))
		body := big(rapid.SampledFrom([]int{0, 100, 70_000, 400_000}).Draw(m.t, "size"), rapid.Byte().Draw(m.t, "byte"))
		conflict := false
		if refused == nil {
			if have, ok := m.bodies[n][slot]; ok {
				conflict = !bytes.Equal(have, body)
			} else {
				m.bodies[n][slot] = body
			}
		}
		return func() error {
			err := v.PutBody(id, slot, "value", body, commit.Raw)
			if conflict && errors.Is(err, ErrConflict) {
				return nil
			}
			return want(err)
		}
	case 4, 5, 6:
		role := byte(rapid.IntRange(0, 3).Draw(m.t, "role"))
		if refused == nil {
			m.refs[n][role] = true
		}
		return func() error {
			for {
				_, err := v.PutObject(refBy(id, fmt.Sprint(role)), nil, bytes.NewReader(big(90_000, role)), MaxBody)
				if !errors.Is(err, ErrConflict) { // it went while it was stored
					return want(err)
				}
			}
		}
	case 7:
		if len(m.refs[n]) == 0 {
			return func() error { return nil }
		}
		role := byte(rapid.IntRange(0, 3).Draw(m.t, "role"))
		there := m.refs[n][role]
		delete(m.refs[n], role)
		return func() error {
			err := v.ChangeRef(refBy2(id, fmt.Sprint(role), big(90_000, role)), func(r *Ref) bool { r.State = ObjectExpired; return true })
			if !there && errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		}
	case 8:
		m.state[n] = max(m.state[n], Redacted)
		m.bodies[n], m.refs[n] = nil, nil
		return func() error { _, err := v.Lower(Redacted, []string{id}); return err }
	default:
		m.state[n] = Purged
		m.bodies[n], m.refs[n] = nil, nil
		return func() error { return v.Erase(id) }
	}
}

func (m *logModel) check() {
	mustBeEqual(m.t, m.nodes...)
	for i, v := range m.nodes {
		objects := map[byte]bool{}
		for n, p := range m.state {
			id, key := attempt(n)
			if got, err := v.Privacy(id); err != nil || got != p {
				m.t.Fatalf("node %d: attempt %d is %v, %v, want %v", i, n, got, err, p)
			}
			if got, err := v.Key(id); p != Purged && (err != nil || got != key) || p == Purged && !errors.Is(err, ErrErased) {
				m.t.Fatalf("node %d: key of attempt %d: %v", i, n, err)
			}
			if p != Active {
				continue
			}
			list, err := v.Bodies(id)
			m.must(err)
			if len(list) != len(m.bodies[n]) {
				m.t.Fatalf("node %d: attempt %d has %d bodies, want %d", i, n, len(list), len(m.bodies[n]))
			}
			for slot, want := range m.bodies[n] {
				if b, err := v.Body(id, slot, "value"); err != nil || !bytes.Equal(b.Bytes, want) {
					m.t.Fatalf("node %d: body %s of attempt %d: %v", i, slot, n, err)
				}
			}
			for role := range m.refs[n] {
				objects[role] = true
			}
		}
		for role := range byte(4) {
			content := big(90_000, role)
			r, err := v.OpenObject(refBy2("-", "-", content).Digest)
			if (err == nil) != objects[role] {
				m.t.Fatalf("node %d: object %d: %v, want it %v", i, role, err, objects[role])
			}
			if err != nil {
				continue
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				m.t.Fatalf("node %d: object %d: %v", i, role, err)
			}
		}
	}
}
