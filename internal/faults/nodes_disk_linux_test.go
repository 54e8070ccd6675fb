package faults

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestNodes_DiskFull fills the disk of one node: the others go on, and it catches up
// once there is space again.
func TestNodes_DiskFull(t *testing.T) {
	v, err := ext4Volume(t, true)
	if err != nil {
		t.Skip("no file system of its own for a node here: ", err)
	}
	ns := prepareNodesAt(t, map[int]string{2: filepath.Join(v.dir, "n3")})
	ns.startAll()
	c := ns.load("full", 6)
	c.grown(100)
	fill := filepath.Join(v.dir, "filler")
	f, err := os.Create(fill)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 1<<20); err == nil; {
		_, err = f.Write(block)
	}
	if cerr := f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(errors.Join(err, cerr))
	}
	c.grown(200)
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	c.grown(100)
	if ns.node(2) == nil {
		t.Logf("the node ended while its disk was full, as it may, and is started again: %s", tail(ns.p[2].stderr.String()))
		ns.start(2)
	}
	ns.whole(c)
}
