package faults

import "testing"

// needs is what a kind of fault needs of the era that it happens in.
type needs uint

const (
	ownDisk      needs = 1 << iota // a file system of its own, which can be cut off, frozen and filled
	thinDisk                       // one whose blocks can run out below it
	externalNATS                   // the stream in a process of its own
	embeddedNATS                   // the stream in the ledger's directory
	debugger                       // strace, to make system calls fail
)

// volume is where the ledger of an era lives.
type volume struct {
	dir  string // for the ledger's files and others
	has  needs
	says string // of what it is made, for the report

	image   string // file behind the file system; "" for a plain directory
	backing string // directory that the image is in
}

// plainVolume is a directory of the machine's own disk.
func plainVolume(t testing.TB) *volume {
	return &volume{dir: t.TempDir(), says: "a directory of this machine's disk"}
}
