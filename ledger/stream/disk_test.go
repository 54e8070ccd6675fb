package stream

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// smallDisk mounts a file system of its own for a test.
func smallDisk(t testing.TB, size string) string {
	t.Helper()
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("a small disk needs mount rights")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	must(t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Skipf("a small disk needs mount rights: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// occupy fills the disk, but for some bytes, with a file that can be removed.
func occupy(t testing.TB, disk string, leave int) (free func()) {
	t.Helper()
	path := filepath.Join(disk, "occupied")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	must(t, err)
	defer f.Close()
	block := make([]byte, 4096)
	for err == nil {
		_, err = f.Write(block)
	}
	fi, err := f.Stat()
	must(t, err)
	must(t, f.Truncate(max(0, fi.Size()-int64(leave))))
	return func() { must(t, os.Remove(path)) }
}

// until waits for a condition without a limit but the test's own.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("never: ", what)
		}
	}
}

// DISK FULL: publishes fail as unavailable with a word about the disk, messages
// can still be read, and service comes back by itself with all that was
// acknowledged, also over a restart.
func TestLOG14_DiskFull(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "64m")
	cfg := testConfig(filepath.Join(disk, "stream"))
	cfg.AckTimeout = 2 * time.Second
	s := open(t, cfg)
	tail := s.Tail(t.Context(), 1)
	mustPublish(t, s, 255, "ff|first", 0)
	rounds := 2
	if long {
		rounds = 10
	}
	var mu sync.Mutex
	acked := map[uint64]string{1: "ff|first"}
	for round := range rounds {
		free := occupy(t, disk, 6<<20)
		// Several publishers go on until every one has failed.
		var wg sync.WaitGroup
		for shard := range 8 {
			wg.Go(func() {
				last := mustLast(t, s, shard)
				for n := 0; ; n++ {
					body := fmt.Sprintf("%02x|round %d, message %d|%s", shard, round, n, bytes.Repeat([]byte("."), 10_000))
					seq, err := s.Publish(t.Context(), Msg{subject("a", "b", shard), []byte(body)}, filter(shard), last)
					if err != nil {
						if !errors.Is(err, ErrUnanswered) && !errors.Is(err, ErrUnavailable) {
							t.Errorf("on a full disk: %v", err)
						}
						return
					}
					last = seq
					mu.Lock()
					acked[seq] = body
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		until(t, "health names the disk", func() bool {
			err := s.Healthy(t.Context())
			return err != nil && strings.Contains(err.Error(), "no space left")
		})
		_, err := s.Publish(t.Context(), Msg{subject("a", "b", 9), []byte("x")}, filter(9), 0)
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("publish: %v", err)
		}
		if m, err := s.Get(t.Context(), 1); err != nil || string(m.Body) != acked[1] {
			t.Errorf("message 1 on a full disk: %v", err)
		}
		free()
		until(t, "healthy again", func() bool { return s.Healthy(t.Context()) == nil })
		last := mustLast(t, s, 255)
		body := fmt.Sprint("ff|after round ", round)
		acked[mustPublish(t, s, 255, body, last)] = body
	}
	end := s.LastSeen()
	check := func(s *Stream) {
		t.Helper()
		st, err := s.State(t.Context())
		if err != nil || st != (State{1, end, end, 0}) {
			t.Fatalf("state %+v, %v, expected a whole stream of %d", st, err, end)
		}
		must(t, s.scan(t.Context(), 1, end, func(seq uint64, m *Message) error {
			if want, ok := acked[seq]; m == nil || ok && string(m.Body) != want {
				return fmt.Errorf("message %d is not what was acknowledged", seq)
			}
			return nil
		}))
	}
	check(s)
	read(t, tail, 1, end, 100)
	closeStream(t, s)
	s = open(t, cfg)
	check(s)
	if r := mustHeal(t, s, healConfig(nil, t.TempDir())); r.Action != Nothing {
		t.Errorf("report %+v", r)
	}
}

// A start on a full disk is refused, and takes nothing away: the server alone
// would delete a stream that it cannot open.
func TestLOG14_StartOnFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "64m")
	dir := filepath.Join(disk, "stream")
	all := makeLeaves(300, 50_000)
	must(t, os.CopyFS(dir, os.DirFS(filled(t, all))))
	// The state knows of a message that was written in part only.
	truncateBy(t, blocks(t, dir)[len(blocks(t, dir))-1], 100)
	free := occupy(t, disk, 0)
	for range 3 {
		s, err := Open(t.Context(), testConfig(dir))
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("open on a full disk: %v, %v", s, err)
		}
	}
	free()
	s := open(t, testConfig(dir))
	r := mustHeal(t, s, healConfig(all[:200], filepath.Join(t.TempDir(), "aside")))
	if r.Reappended != 99 || r.Lost.Count != 1 {
		t.Errorf("report %+v", r)
	}
	mustHold(t, s, all[:299])
}

// A disk that fills up in a heal ends the heal, and the next one goes on.
func TestLOG14_DiskFullDuringHeal(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "64m")
	cfg := testConfig(filepath.Join(disk, "stream"))
	cfg.AckTimeout = time.Second
	s := open(t, cfg)
	log := makeLeaves(300, 50_000)
	free := occupy(t, disk, 8<<20)
	if _, err := s.Heal(t.Context(), healConfig(log, t.TempDir())); err == nil {
		t.Fatal("healed on a full disk")
	}
	free()
	until(t, "healthy again", func() bool { return s.Healthy(t.Context()) == nil })
	mustHeal(t, s, healConfig(log, t.TempDir()))
	mustHold(t, s, log)
}
