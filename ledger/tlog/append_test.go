package tlog

import (
	"math/rand/v2"
	"testing"
)

func TestLOG04_LeavesKeepTheirOrder(t *testing.T) {
	b := newBench(t)
	l := b.open()
	rnd := rand.New(rand.NewPCG(1, 2))
	for l.Size() < 3000 {
		b.add(l, 1+rnd.Uint64N(300))
	}
	b.publish(l)
	b.close(l)
	b.fsck()
}
