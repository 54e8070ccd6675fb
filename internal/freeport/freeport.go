// Package freeport finds ports that servers are to listen on later, when others have
// been told of them. They are below those that the system gives to whoever asks for
// any, so that nobody else is given one meanwhile.
package freeport

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
)

const first, last = 12_000, 31_000

// next is another place in the range for each process, and moves on with each port.
var next atomic.Int64

func init() { next.Store(int64(os.Getpid()) * 197) }

// Addr is an address of this machine that nothing listens on.
func Addr() (string, error) {
	port, err := Row(1)
	return addr(port), err
}

// Row is the first of n ports in a row that nothing on this machine listens on.
func Row(n int) (int, error) {
	for range last - first {
		port := first + int((next.Add(int64(n))-int64(n))%(last-first))
		if port+n > last {
			continue
		}
		free, err := allFree(port, n)
		if err != nil || free {
			return port, err
		}
	}
	return 0, fmt.Errorf("no %d free ports in a row from %d to %d", n, first, last)
}

func addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func allFree(port, n int) (bool, error) {
	for p := port; p < port+n; p++ {
		ln, err := net.Listen("tcp", addr(p))
		if err != nil {
			return false, nil //nolint:nilerr // it is taken
		}
		if err := ln.Close(); err != nil {
			return false, err
		}
	}
	return true, nil
}
