package tlog

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"counterfoil/internal/testkit/rapidkit"
	"counterfoil/ledger/trust"
)

// guardModel is what a log may be, beside the log.
type guardModel struct {
	b      *bench
	l      *Log
	files  *faultyFiles
	engine *faultyEngine
	signer *watchedSigner

	durable uint64 // leaves that an Append acknowledged
	top     uint64 // size of the largest tree that was signed
	copies  int    // old copies of log and guard
	tries   int    // copies that were started on
	seen    int    // signatures that were checked
}

// signed checks every signature that was made since the last look: it is of the
// tree of the lawful leaves at its size, and no tree is signed after a larger one.
func (m *guardModel) signed(t *rapid.T) {
	for ; m.seen < len(m.signer.all); m.seen++ {
		cp, err := trust.ParseCheckpoint(m.signer.all[m.seen])
		if err != nil {
			t.Fatalf("signed %q: %v", m.signer.all[m.seen], err)
		}
		if string(cp.Root[:]) != string(rootAt(cp.Size)) {
			t.Fatalf("signed root %x at size %d, the leaves give %x", cp.Root, cp.Size, rootAt(cp.Size))
		}
		if cp.Size < m.top {
			t.Fatalf("signed a tree of %d after one of %d", cp.Size, m.top)
		}
		m.top = cp.Size
	}
}

// settle appends until want leaves are durable, through whatever error.
func (m *guardModel) settle(t *rapid.T, want uint64) {
	for range 5 {
		size := m.l.Size()
		if size >= want {
			m.durable = size
			return
		}
		if _, err := m.l.Append(context.Background(), leavesFrom(size, want-size)); final(err) {
			t.Fatalf("append after a fault: %v", err)
		}
	}
	t.Fatalf("the log has %d leaves and does not grow to %d", m.l.Size(), want)
}

// reopen closes the log if it is open, and opens it.
func (m *guardModel) reopen() error {
	if m.l != nil {
		_ = m.l.Close(context.Background()) // what could not be done shows at the opening
	}
	var err error
	if m.l, err = Open(context.Background(), m.b.cfg); err != nil {
		m.l = nil
	}
	return err
}

// TestINV4_GuardAgainstAModel appends, publishes, starts again and restores old
// copies in any order, with disks and engines that fail with and without effect.
// Nothing that was acknowledged is lost, and nothing is ever signed that is not the
// tree of the leaves, or smaller than what was signed before.
func TestINV4_GuardAgainstAModel(t *testing.T) {
	rapidkit.Check(t, 60, func(rt *rapid.T) {
		m := &guardModel{b: newBench(t), files: new(faultyFiles), engine: new(faultyEngine)}
		m.b.cfg.files = m.files.files()
		m.b.faulty(m.engine)
		m.signer = m.b.watch()
		if err := m.reopen(); err != nil {
			rt.Fatal(err)
		}
		defer func() { _ = m.l.Close(context.Background()) }()
		rt.Repeat(map[string]func(*rapid.T){
			"": func(rt *rapid.T) {
				m.signed(rt)
				if m.l.Size() < m.durable {
					rt.Fatalf("the log has %d leaves, %d were acknowledged", m.l.Size(), m.durable)
				}
			},
			"append": func(rt *rapid.T) {
				m.settle(rt, m.l.Size()+rapid.Uint64Range(1, 130).Draw(rt, "leaves"))
			},
			"append with a fault": func(rt *rapid.T) {
				from, n := m.l.Size(), rapid.Uint64Range(1, 64).Draw(rt, "leaves")
				if rapid.Bool().Draw(rt, "kept") {
					m.engine.after = func(indexes []uint64, err error) ([]uint64, error) { return nil, errors.Join(err, errDisk) }
				} else {
					m.engine.before = func([][]byte) ([][]byte, error) { return nil, errDisk }
				}
				_, err := m.l.Append(context.Background(), leavesFrom(from, n))
				kept := m.engine.after != nil
				m.engine.before, m.engine.after = nil, nil
				if size := m.l.Size(); err == nil && size != from+n || kept && err == nil && size == from || final(err) {
					rt.Fatalf("append at %d: size %d, %v", from, size, err)
				}
				m.settle(rt, from+n)
			},
			"publish": func(rt *rapid.T) {
				size := m.l.Size()
				if cp, err := m.l.Publish(context.Background()); err != nil || cp.Size != size {
					rt.Fatalf("publish %d: %d %v", size, cp.Size, err)
				}
			},
			"publish with a fault": func(rt *rapid.T) {
				m.files.name = rapid.SampledFrom([]string{guardFile, "checkpoint"}).Draw(rt, "file")
				m.files.next = rapid.SampledFrom([]fault{failedNotKept, failedButKept}).Draw(rt, "fault")
				before := m.l.Checkpoint()
				if cp, err := m.l.Publish(context.Background()); err != nil && (final(err) || cp.Size != before.Size) {
					rt.Fatalf("publish: %d %v", cp.Size, err)
				}
				m.files.next = works
			},
			"start again": func(rt *rapid.T) {
				if err := m.reopen(); err != nil {
					rt.Fatal(err)
				}
			},
			"copy": func(rt *rapid.T) {
				for _, dir := range []string{"log", "guard"} {
					m.b.save(dir, fmt.Sprintf("old/%d/%s", m.copies, dir))
				}
				m.copies++
			},
			"restore": func(rt *rapid.T) {
				if m.copies == 0 {
					rt.Skip("no copy")
				}
				m.restore(rt, rapid.SampledFrom([]string{"log", "guard"}).Draw(rt, "part"), rapid.IntRange(0, m.copies-1).Draw(rt, "copy"))
			},
		})
	})
}

// restore starts on a copy in which one part is old. Either that is refused, or the
// part is as good as the newest. The log itself goes on afterwards.
func (m *guardModel) restore(rt *rapid.T, part string, n int) {
	if err := m.l.Close(context.Background()); err != nil {
		rt.Fatal(err)
	}
	m.signed(rt)
	size := m.l.Size()
	m.l = nil
	// Elsewhere, since Tessera may still be at its lock files here.
	name := fmt.Sprintf("tried/%d", m.tries)
	m.tries++
	for _, dir := range []string{"log", "guard"} {
		from := dir
		if dir == part {
			from = fmt.Sprintf("old/%d/%s", n, dir)
		}
		m.b.save(from, name+"/"+dir)
	}
	m.b.write(m.b.read(name, "guard", guardFile), name, "guard", "before.json") // the start writes a newer one
	cfg := m.b.cfg
	cfg.Dir, cfg.GuardDir = m.b.path(name, "log"), m.b.path(name, "guard")
	signed := len(m.signer.all)
	l, err := Open(context.Background(), cfg)
	if err == nil {
		// A guard that is as old as the newest checkpoint loses nothing, and a log
		// as old as the guard's tree has lost what was never signed.
		_, known, perr := parseRecord(m.b.read(name, "guard", "before.json"))
		if perr != nil {
			rt.Fatal(perr)
		}
		if cp := l.Checkpoint(); cp.Size > known.size || l.Size() < known.size || cp.Size > m.top || part == "guard" && l.Size() != size || l.Size() < m.top {
			rt.Errorf("an old %s was taken: size %d of %d, checkpoint %d, signed %d", part, l.Size(), size, cp.Size, m.top)
		}
		if err := l.Close(context.Background()); err != nil {
			rt.Error(err)
		}
	} else if len(m.signer.all) != signed {
		rt.Errorf("the refused start signed %q", m.signer.all[signed:])
	}
	if err := m.reopen(); err != nil {
		rt.Fatalf("the log itself: %v", err)
	}
}
