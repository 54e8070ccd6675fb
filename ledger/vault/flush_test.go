package vault

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"counterfoil/ledger/commit"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
)

// TestEVI12_EveryLogIsFlushed: full logs once, the newest each time, the
// directory whenever it shows a new name.
func TestEVI12_EveryLogIsFlushed(t *testing.T) {
	dir := t.TempDir()
	w, err := newWALFlusher(dir)
	must(t, err)
	defer w.close()
	var flushed []string
	vanish := ""
	w.syncFile = func(path string) error {
		name := filepath.Base(path)
		if name == vanish {
			must(t, os.Remove(path))
		}
		err := syncFile(path)
		if err == nil {
			flushed = append(flushed, name)
		}
		return err
	}
	w.syncDir = func() error { flushed = append(flushed, "directory"); return nil }
	touch := func(name string) { must(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600)) }
	expect := func(what string, want ...string) {
		t.Helper()
		flushed = nil
		must(t, w.flush())
		slices.Sort(flushed)
		diff(t, what, want, flushed)
	}
	touch("MANIFEST")
	touch("00001.mem")
	expect("first log", "00001.mem", "directory")
	expect("nothing new", "00001.mem")
	touch("00002.mem")
	touch("00003.mem")
	expect("two new logs", "00001.mem", "00002.mem", "00003.mem", "directory")
	expect("full logs are not flushed again", "00003.mem")
	touch("000001.sst")
	must(t, os.Remove(filepath.Join(dir, "00001.mem")))
	expect("a table was made", "00003.mem", "directory")
	touch("00004.mem")
	vanish = "00003.mem"
	expect("a log vanishes meanwhile", "00004.mem", "directory")
	vanish = "00004.mem"
	expect("nothing else is new", "directory")
	vanish = ""
	touch("00004.mem")
	expect("it is back", "00004.mem")
	must(t, os.Truncate(filepath.Join(dir, "00004.mem"), 0))
	expect("about to vanish", "directory")
	touch("00004.mem")
	touch("00010.mem")
	touch("00009.mem")
	expect("numbers, not names", "00004.mem", "00009.mem", "00010.mem", "directory")
	touch("99999.mem")
	touch("100000.mem")
	expect("six digits", "00010.mem", "100000.mem", "99999.mem", "directory")
	expect("the newest has six digits", "100000.mem")
	if len(w.full) > len(w.seen) {
		t.Error("names of deleted logs pile up")
	}

	boom := errors.New("boom")
	w.syncFile = func(string) error { return boom }
	mustBe(t, w.flush(), boom)
	w.syncFile, w.syncDir = syncFile, func() error { return boom }
	touch("100001.mem")
	mustBe(t, w.flush(), boom)
	w.syncDir = func() error { flushed = append(flushed, "directory"); return nil }
	flushed = nil
	must(t, w.flush())
	diff(t, "a failed directory flush is repeated", []string{"directory"}, flushed)
}

func TestEVI12_FailedFlushFailsTheVault(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	id := mustPut(t, v, 1)
	must(t, v.Sync())
	boom := errors.New("boom")
	v.wal.syncFile = func(string) error { return boom }
	err := v.Sync()
	mustBe(t, err, boom)
	mustBe(t, err, ErrFailed)
	v.wal.syncFile = syncFile
	_, key := attempt(2)
	_, kerr := v.Key(id)
	_, berr := v.Bodies(id)
	for _, err := range []error{v.Sync(), v.Put("att_2", key), kerr, berr, v.Erase(id)} {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("error %v, want ErrFailed", err)
		}
	}
	must(t, v.Close())
	mustHaveKey(t, open(t, dir), 1)
}

// TestConcurrentSyncsShareFlushes holds the first flush until everybody else
// has asked: they share one more.
func TestConcurrentSyncsShareFlushes(t *testing.T) {
	v := open(t, t.TempDir())
	mustPut(t, v, 1)
	must(t, v.Sync())
	entered, goOn := make(chan struct{}, 1), make(chan struct{})
	flushes := 0 // by the flusher only, read when it rests
	v.wal.syncFile = func(path string) error {
		flushes++
		if flushes == 1 {
			entered <- struct{}{}
			<-goOn
		}
		return syncFile(path)
	}
	const callers = 50
	errs := make(chan error, 1+callers)
	go func() { errs <- v.Sync() }()
	<-entered
	for range callers {
		go func() { errs <- v.Sync() }()
	}
	for len(v.flushes) < callers { // the channel holds 64
		select {
		case err := <-errs:
			t.Fatalf("a Sync returned (%v) before its flush", err)
		default:
		}
	}
	close(goOn)
	for range 1 + callers {
		must(t, <-errs)
	}
	if flushes != 2 {
		t.Errorf("%d flushes for %d callers, want 2", flushes, 1+callers)
	}
}

// TestEVI12_PowerCut: everything whose Put returned before Sync is in what a
// power cut leaves. Enough is written at once for full logs to be waiting when
// Sync is called.
func TestEVI12_PowerCut(t *testing.T) {
	const bodySize = 3 << 19
	v := open(t, t.TempDir())
	d := watchDisk(t, v)
	n := 0
	for round := range 2 {
		var wg sync.WaitGroup
		for range 16 {
			id, body := mustPut(t, v, n), random(t, bodySize)
			wg.Go(func() {
				if err := v.PutBody(id, "s", "n", body, commit.Raw); err != nil {
					t.Error(err)
				}
			})
			n++
		}
		wg.Wait()
		w := open(t, d.syncAndCut(t))
		for i := range n {
			mustHaveKey(t, w, i)
			id, _ := attempt(i)
			if b, err := w.Body(id, "s", "n"); err != nil || len(b.Bytes) != bodySize {
				t.Fatalf("round %d: body %d of %d: %d bytes, %v", round, i, n, len(b.Bytes), err)
			}
		}
		must(t, w.Close())
	}
}

// disk knows what of a vault's directory is durable.
type disk struct {
	v        *Vault
	mu       sync.Mutex
	logs     map[string][]byte // logs as they were when they were last flushed
	names    map[string]bool   // names that were there when the directory was last flushed
	manifest []byte            // at the beginning of the last Sync; nil: not yet
}

func watchDisk(t *testing.T, v *Vault) *disk {
	d := &disk{v: v, logs: map[string][]byte{}, names: map[string]bool{}}
	v.wal.syncFile = func(path string) error {
		data, err := os.ReadFile(path)
		if err := errors.Join(err, syncFile(path)); err != nil {
			return err
		}
		if len(data) == 0 {
			return fs.ErrNotExist
		}
		manifest, err := os.ReadFile(filepath.Join(v.dir, "MANIFEST"))
		d.mu.Lock()
		defer d.mu.Unlock()
		d.logs[filepath.Base(path)] = data
		if d.manifest == nil {
			d.manifest = manifest
		}
		return err
	}
	v.wal.syncDir = func() error {
		entries, rerr := os.ReadDir(v.dir)
		err := v.wal.dir.Sync()
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, e := range entries {
			d.names[e.Name()] = true
		}
		return errors.Join(err, rerr)
	}
	v.wal.seen = map[string]bool{} // so that the next Sync shows every name
	must(t, v.Sync())
	return d
}

// syncAndCut calls Sync and copies what a power cut right after it leaves at
// least: the flushed logs, and the tables that the manifest named when Sync
// began; Badger flushed those before it named them. Tables that Badger made
// meanwhile do not count, unless it deleted their logs before Sync came to
// them: then, and when a compaction takes a table away from the copying, it
// begins again.
func (d *disk) syncAndCut(t *testing.T) (cut string) {
	t.Helper()
again:
	d.mu.Lock()
	d.manifest = nil
	clear(d.logs)
	d.mu.Unlock()
	d.v.wal.full = map[string]bool{} // logs was cleared; the flusher rests
	before, err := filepath.Glob(filepath.Join(d.v.dir, "*"+walSuffix))
	must(t, err)
	must(t, d.v.Sync())
	for _, log := range before {
		fi, err := os.Stat(log)
		gone := err != nil || fi.Size() == 0
		switch name := filepath.Base(log); {
		case gone && (d.logs[name] == nil || !d.names[name]):
			goto again
		case d.logs[name] == nil:
			t.Fatalf("Sync did not flush %s", name)
		}
	}
	entries, err := os.ReadDir(d.v.dir)
	must(t, err)
	cut = t.TempDir()
	for _, e := range entries {
		name := e.Name()
		if name == "LOCK" || name == "MANIFEST" || strings.HasSuffix(name, walSuffix) {
			continue
		}
		path := filepath.Join(d.v.dir, name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			goto again
		}
		must(t, err)
		// Badger empties a file before it deletes it.
		if fi, err := os.Stat(path); err != nil || fi.Size() != int64(len(data)) || len(data) == 0 {
			goto again
		}
		must(t, os.WriteFile(filepath.Join(cut, name), data, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(cut, "MANIFEST"), d.manifest, 0o600))
	f, err := os.Open(filepath.Join(cut, "MANIFEST"))
	must(t, err)
	m, _, err := badger.ReplayManifestFile(f, 0, badger.Options{Logger: quiet{d.v.opt.Log}})
	must(t, errors.Join(err, f.Close()))
	for id := range m.Tables {
		if _, err := os.Stat(filepath.Join(cut, table.IDToFilename(id))); err != nil {
			goto again
		}
	}
	for name, data := range d.logs {
		if d.names[name] {
			must(t, os.WriteFile(filepath.Join(cut, name), data, 0o600))
		}
	}
	return cut
}

// TestEVI12_StubsOfAKilledProcess: Badger alone would refuse to open these.
func TestEVI12_StubsOfAKilledProcess(t *testing.T) {
	dir := t.TempDir()
	v := open(t, dir)
	mustPut(t, v, 1)
	killed := copyDir(t, dir)
	for _, name := range []string{"00000.mem", "00007.mem", "00099.mem", "000099.vlog"} {
		must(t, os.WriteFile(filepath.Join(killed, name), nil, 0o600))
	}
	must(t, os.WriteFile(filepath.Join(killed, "00008.mem"), make([]byte, 19), 0o600))
	w := open(t, killed)
	mustHaveKey(t, w, 1)
	mustPut(t, w, 2)
}

const killDirEnv = "COUNTERFOIL_TEST_VAULT_KILL_DIR"

// TestEVI12_KilledProcessLosesNothing kills a process with SIGKILL while 16
// goroutines put keys, and finds every key whose Put had returned.
func TestEVI12_KilledProcessLosesNothing(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKillHelper$")
		cmd.Env = append(os.Environ(), killDirEnv+"="+dir, fmt.Sprintf("COUNTERFOIL_TEST_VAULT_FROM=%d", round<<24))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		var put []int
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				continue // the last line may be cut off, or be the test's own
			}
			if put = append(put, n); len(put) == 2000 {
				must(t, cmd.Process.Kill())
			}
		}
		if err := cmd.Wait(); err == nil || len(put) < 2000 {
			t.Fatalf("the process ended by itself after %d keys: %v", len(put), err)
		}
		v := open(t, dir)
		for _, n := range put[:2000] {
			mustHaveKey(t, v, n)
			id, _ := attempt(n)
			if n%10 == 0 {
				mustHaveBody(t, v, id, "s", "n", make([]byte, 20<<10), commit.Raw)
			}
		}
		must(t, v.Close())
	}
}

func TestKillHelper(t *testing.T) {
	dir := os.Getenv(killDirEnv)
	if dir == "" {
		t.Skip("helper of another test")
	}
	from, err := strconv.Atoi(os.Getenv("COUNTERFOIL_TEST_VAULT_FROM"))
	must(t, err)
	v := open(t, dir)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := 0; i < 1<<16; i++ {
				n := from | g<<16 | i
				id, key := attempt(n)
				if err := v.Put(id, key); err != nil {
					return
				}
				if n%10 == 0 {
					if err := v.PutBody(id, "s", "n", make([]byte, 20<<10), commit.Raw); err != nil {
						return
					}
				}
				fmt.Fprintf(os.Stdout, "%d\n", n)
			}
		})
	}
	wg.Wait()
}
