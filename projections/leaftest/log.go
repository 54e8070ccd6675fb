package leaftest

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
)

var ranges = compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}

// Root is the root of a tree of leaves.
func Root(leaves [][]byte) (root [32]byte) {
	r := ranges.NewEmptyRange(0)
	for _, l := range leaves {
		if err := r.Append(rfc6962.DefaultHasher.HashLeaf(l), nil); err != nil {
			panic(err)
		}
	}
	if len(leaves) == 0 {
		return [32]byte(rfc6962.DefaultHasher.EmptyRoot())
	}
	h, err := r.GetRootHash(nil)
	if err != nil {
		panic(err)
	}
	return [32]byte(h)
}

// Log is a log in memory. It is safe for concurrent use.
type Log struct {
	mu      sync.Mutex
	leaves  [][]byte
	size    uint64
	root    [32]byte
	changed chan struct{}
	// Read may replace a leaf that is read, or fail; nil reads what is there.
	read func(index uint64, leaf []byte) ([]byte, error)
}

// NewLog makes a log of leaves, none of them published.
func NewLog(leaves ...[]byte) *Log { return &Log{leaves: leaves, changed: make(chan struct{})} }

// Append adds leaves without publishing them.
func (l *Log) Append(leaves ...[]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaves = append(l.leaves, leaves...)
}

// Publish publishes the first size leaves.
func (l *Log) Publish(size int) {
	l.mu.Lock()
	root := Root(l.leaves[:size])
	l.mu.Unlock()
	l.PublishAs(uint64(size), root)
}

// PublishAs publishes any size and root.
func (l *Log) PublishAs(size uint64, root [32]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size, l.root = size, root
	close(l.changed)
	l.changed = make(chan struct{})
}

// OnRead sets what may replace a leaf that is read, or fail.
func (l *Log) OnRead(read func(index uint64, leaf []byte) ([]byte, error)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = read
}

// Published implements follow.Source.
func (l *Log) Published(context.Context) (uint64, [32]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size, l.root, nil
}

// Changed implements follow.Source.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Leaves implements follow.Source. The slice that it yields is reused.
func (l *Log) Leaves(_ context.Context, from, to, _ uint64, yield func(uint64, []byte) error) error {
	var buf []byte
	for i := from; i < to; i++ {
		leaf, err := l.leaf(i)
		if err != nil {
			return err
		}
		buf = append(buf[:0], leaf...)
		if err := yield(i, buf); err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) leaf(i uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i >= uint64(len(l.leaves)) {
		return nil, fmt.Errorf("no leaf %d", i)
	}
	if l.read != nil {
		return l.read(i, l.leaves[i])
	}
	return l.leaves[i], nil
}

// Leaf implements query.LeafReader.
func (l *Log) Leaf(_ context.Context, index, _ uint64) ([]byte, error) { return l.leaf(index) }

// Proving is a Log that can also prove inclusion of the leaves that it was made
// of, whatever OnRead yields.
type Proving struct{ *Log }

// Inclusion implements follow.Prover.
func (p Proving) Inclusion(_ context.Context, index, size uint64) ([][]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := testonly.New(rfc6962.DefaultHasher)
	t.AppendData(p.leaves[:size]...)
	return t.InclusionProof(index, size)
}

// FileLog is a published log whose leaves are in a file, for tests that measure
// memory.
type FileLog struct {
	f    *os.File
	ends []int64
	root [32]byte
}

// NewFileLog writes leaves to a file.
func NewFileLog(path string, leaves func(yield func([]byte) bool)) (*FileLog, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	l := &FileLog{f: f}
	r := ranges.NewEmptyRange(0)
	at := int64(0)
	var buf []byte
	for leaf := range leaves {
		at += int64(len(leaf))
		l.ends = append(l.ends, at)
		if err := r.Append(rfc6962.DefaultHasher.HashLeaf(leaf), nil); err != nil {
			return nil, err
		}
		if buf = append(buf, leaf...); len(buf) > 1<<20 {
			if _, err := f.Write(buf); err != nil {
				return nil, err
			}
			buf = buf[:0]
		}
	}
	if _, err := f.Write(buf); err != nil {
		return nil, err
	}
	h, err := r.GetRootHash(nil)
	if err != nil {
		return nil, err
	}
	l.root = [32]byte(h)
	return l, nil
}

// Published implements follow.Source.
func (l *FileLog) Published(context.Context) (uint64, [32]byte, error) {
	return uint64(len(l.ends)), l.root, nil
}

// Changed implements follow.Source.
func (l *FileLog) Changed() <-chan struct{} { return nil }

// Leaves implements follow.Source.
func (l *FileLog) Leaves(_ context.Context, from, to, _ uint64, yield func(uint64, []byte) error) error {
	start := int64(0)
	if from > 0 {
		start = l.ends[from-1]
	}
	buf := make([]byte, l.ends[to-1]-start)
	if _, err := l.f.ReadAt(buf, start); err != nil {
		return err
	}
	for i := from; i < to; i++ {
		n := l.ends[i] - start
		if err := yield(i, buf[:n:n]); err != nil {
			return err
		}
		buf, start = buf[n:], l.ends[i]
	}
	return nil
}

// Close closes the file.
func (l *FileLog) Close() error { return l.f.Close() }

// Roots are the roots at ascending sizes.
func Roots(leaves [][]byte, sizes []int) (roots [][32]byte) {
	r := ranges.NewEmptyRange(0)
	for _, size := range sizes {
		for r.End() < uint64(size) {
			if err := r.Append(rfc6962.DefaultHasher.HashLeaf(leaves[r.End()]), nil); err != nil {
				panic(err)
			}
		}
		h, err := r.GetRootHash(nil)
		if err != nil {
			panic(err)
		}
		roots = append(roots, [32]byte(h))
	}
	return roots
}
