package faults

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// What clients hear of a disk that does not keep what it is given. A process that
// cannot know what the disk holds ends, and clients get no answer.
var diskTrouble = []string{"503 disk_full", "503 log_unavailable", "503 vault_unavailable", "503 stream_unavailable", "503 timeout", "503 stopping", nobodyListens, noAnswer}

func diskKinds() []kind {
	return []kind{fullKind, writeErrorsKind, goneKind, powerKind, stallsKind, busyKind, callsKind}
}

// fullKind lets another program take the last byte.
var fullKind = kind{
	name:  "disk full",
	says:  "another program fills the file system to the last byte for up to 3 s",
	needs: ownDisk,
	inject: func(r *round) {
		other := filepath.Join(r.era.volume.dir, "ballast")
		ballast(r.t, other, 1<<40)
		r.sleep(500*time.Millisecond, r.atMost(3*time.Second))
		if err := os.Remove(other); err != nil {
			r.t.Fatal(err)
		}
	},
	recover:  (*round).backAgain,
	refusals: diskTrouble,
}

// backAgain starts the ledger if it has ended, or lets it come back by itself.
func (r *round) backAgain() {
	r.t.Helper()
	eventually(r.t, "service is back or the process ends", func() bool { return r.p.over() || r.p.unready() == nil })
	if r.p.over() {
		r.say("it ended: " + ending(r.p))
		r.start()
	}
}

// unplugged ends the ledger if it has not ended, mounts the file system again, and
// starts it.
func (r *round) unplugged() {
	r.t.Helper()
	if r.p.over() {
		r.say("it ended: " + ending(r.p))
	}
	r.p.kill(syscall.SIGKILL)
	r.era.volume.replug(r.t)
	p, err := startErr(r.t, r.era.dir, r.era.args...)
	if err != nil && r.fileSystemErred && damagedFile.MatchString(err.Error()) {
		r.damaged = true
		r.say(refusalOf(err))
		return
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.p = p
}

// writeErrorsKind takes the blocks away that the file system is made of: writes to
// new ones give EIO, its journal ends, and it becomes read-only.
var writeErrorsKind = kind{
	name:  "write errors",
	says:  "the blocks under the file system run out: EIO on writes and flushes, then a read-only file system; mounted again",
	needs: thinDisk,
	inject: func(r *round) {
		ballast(r.t, filepath.Join(r.era.volume.backing, "ballast"), 1<<40)
		r.sleep(300*time.Millisecond, r.atMost(3*time.Second))
	},
	recover: func(r *round) {
		if err := os.Remove(filepath.Join(r.era.volume.backing, "ballast")); err != nil {
			r.t.Fatal(err)
		}
		r.fileSystemErred = true
		r.unplugged()
	},
	refusals: diskTrouble,
}

var goneKind = kind{
	name:  "disk gone",
	says:  "every access gives EIO, after what was written has reached the disk; mounted again",
	needs: ownDisk,
	inject: func(r *round) {
		r.era.volume.shutdown(r.t, shutdownLogFlush)
		r.sleep(0, r.atMost(1500*time.Millisecond))
	},
	recover:  (*round).unplugged,
	refusals: diskTrouble,
}

// powerKind loses everything that was not flushed. The ledger runs on for a
// moment, in which it must acknowledge nothing that it could not flush.
var powerKind = kind{
	name:  "power loss",
	says:  "everything that was not flushed is gone; mounted again",
	needs: ownDisk,
	inject: func(r *round) {
		r.sleep(0, 300*time.Millisecond)
		r.era.volume.shutdown(r.t, shutdownNoLogFlush)
		r.sleep(0, 200*time.Millisecond)
		r.p.kill(syscall.SIGKILL)
	},
	recover:  (*round).unplugged,
	refusals: diskTrouble,
}

var stallsKind = kind{
	name:  "disk stalls",
	says:  "the file system stands still five times, for up to 1 s each (FIFREEZE)",
	needs: ownDisk,
	inject: func(r *round) {
		for range 5 {
			r.era.volume.freeze(r.t)
			r.sleep(50*time.Millisecond, r.atMost(time.Second))
			r.era.volume.thaw(r.t)
			r.sleep(0, 200*time.Millisecond)
		}
		r.grown(20)
	},
	refusals: []string{"503 timeout", "503 log_unavailable", "503 stream_unavailable"},
}

// busyKind is a slow disk: another program flushes on it all the time.
var busyKind = kind{
	name:  "disk slow",
	says:  "four writers flush 1 MiB at a time on the same file system for up to 3 s",
	needs: ownDisk,
	inject: func(r *round) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				f, err := os.CreateTemp(r.era.volume.dir, "busy-")
				if err != nil {
					r.t.Errorf("writer %d: %v", w, err)
					return
				}
				defer os.Remove(f.Name())
				defer f.Close()
				for buf := make([]byte, 1<<20); ; {
					select {
					case <-stop:
						return
					default:
					}
					if _, err := f.WriteAt(buf, 0); err != nil {
						r.t.Errorf("writer %d: %v", w, err)
						return
					}
					_ = f.Sync() // what it costs the ledger counts
				}
			})
		}
		r.sleep(500*time.Millisecond, r.atMost(3*time.Second))
		close(stop)
		wg.Wait()
	},
}
