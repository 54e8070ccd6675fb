// Package freeport gives tests ports that servers are to listen on later, when others
// have been told of them. They are below those that the system gives to whoever asks
// for any, so that no other test is given one meanwhile.
package freeport

import (
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
)

const first, last = 12_000, 31_000

// next is another place in the range for each process, and moves on with each port.
var next atomic.Int64

func init() { next.Store(int64(os.Getpid()) * 197) }

// Addr is an address of this machine that nothing listens on.
func Addr(t testing.TB) string {
	t.Helper()
	for range last - first {
		addr := fmt.Sprintf("127.0.0.1:%d", first+next.Add(1)%(last-first))
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := ln.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
	t.Fatal("no free port")
	return ""
}
