package freeport_test

import (
	"fmt"
	"net"
	"testing"

	"counterfoil/internal/testkit/freeport"
)

func TestRow(t *testing.T) {
	// A port that somebody has is in no row.
	taken, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", freeport.Row(t, 2)+2))
	if err != nil {
		t.Skip("another process was given that port: ", err)
	}
	defer taken.Close()
	given := map[int]bool{taken.Addr().(*net.TCPAddr).Port: true}
	for _, n := range []int{3, 1, 7, 1, 2} {
		for i, port := 0, freeport.Row(t, n); i < n; i++ {
			if given[port+i] {
				t.Errorf("port %d was given before or is taken", port+i)
			}
			given[port+i] = true
			ln, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port+i))
			if err != nil {
				t.Error(err)
				continue
			}
			ln.Close()
		}
	}
}
