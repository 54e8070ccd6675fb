package follow_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
	"counterfoil/projections/leaftest"
)

const (
	childDir    = "FOLLOW_TEST_CHILD_DIR"
	childMode   = "FOLLOW_TEST_CHILD_MODE"
	childFile   = "FOLLOW_TEST_CHILD_FILE"
	childLeaves = 4000
)

// chatty tells the parent about every read, so that it can kill at a moment that
// depends on progress and not on a clock.
type chatty struct{ *leaftest.Log }

func (c chatty) Leaves(ctx context.Context, from, to, size uint64, yield func(uint64, []byte) error) error {
	fmt.Println("read", from)
	return c.Log.Leaves(ctx, from, to, size, yield)
}

// child follows, or rebuilds, until it is killed or done.
func child(dir string) int {
	var leaves [][]byte
	raw, err := os.ReadFile(os.Getenv(childFile))
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(raw)).Decode(&leaves)
	}
	if err != nil {
		return exit(err)
	}
	log := leaftest.NewLog(leaves...)
	log.Publish(len(leaves))
	cfg := follow.Config{Source: chatty{log}, Check: leaftest.NoCheck, BatchLeaves: 37}
	if os.Getenv(childMode) == "rebuild" {
		_, err := follow.Rebuild(context.Background(), config(dir), cfg)
		return exit(err)
	}
	db, err := kv.Open(config(dir))
	if err != nil {
		return exit(err)
	}
	cfg.DB = db
	f, err := follow.New(cfg)
	if err != nil {
		return exit(err)
	}
	go func() {
		for {
			changed := f.Changed()
			fmt.Println("at", f.Status().Size)
			<-changed
		}
	}()
	err = f.CatchUp(context.Background())
	if err == nil {
		err = db.Close()
	}
	return exit(err)
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childHistory is what children follow, in memory and in a file.
func childHistory(t *testing.T) (leaves [][]byte, file string) {
	t.Helper()
	leaves = leaftest.History(11, childLeaves)
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(leaves); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "leaves")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return leaves, file
}

// killAfter runs a child and kills it after some lines of progress.
func killAfter(t *testing.T, file, dir, mode string, lines int) (killed bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childMode+"="+mode, childFile+"="+file)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	for i := 0; sc.Scan(); i++ {
		if i == lines {
			killed = true
			_ = cmd.Process.Kill() // SIGKILL; the child goes on until it arrives
		}
	}
	err = cmd.Wait()
	if !killed && err != nil {
		t.Fatalf("child: %v", err)
	}
	return killed
}

// TestLOG05_KilledViewsMatchTheirCursor is the case KILL -9: after each kill the
// rows are exactly the fold of the leaves before the cursor.
func TestLOG05_KilledViewsMatchTheirCursor(t *testing.T) {
	leaves, file := childHistory(t)
	// The children do not check signatures, so neither does the comparison.
	// Cursors only rise, so it goes on where it was.
	reference := func() func(size int) [32]byte {
		log, db := leaftest.NewLog(leaves...), open(t, t.TempDir())
		f := follower(t, db, log, func(c *follow.Config) { c.Check = leaftest.NoCheck })
		return func(size int) [32]byte {
			log.Publish(size)
			catchUp(t, f)
			return digest(t, db)
		}
	}
	plain := reference()
	rounds := 10
	if long {
		rounds = 50
	}
	r := rand.New(rand.NewPCG(1, 3))
	dir, kills, sizes := t.TempDir(), 0, map[uint64]bool{}
	for range rounds {
		if killAfter(t, file, dir, "follow", r.IntN(40)) {
			kills++
		}
		db := open(t, dir)
		c, err := db.Cursor()
		if err != nil {
			t.Fatal(err)
		}
		if db.Fresh() != "" && db.Fresh() != "first start" {
			t.Errorf("size %d: views were dropped: %s", c.Size, db.Fresh())
		}
		if c.Root != leaftest.Root(leaves[:c.Size]) {
			t.Fatalf("size %d: wrong root in the cursor", c.Size)
		}
		if got, want := digest(t, db), plain(int(c.Size)); got != want {
			t.Fatalf("size %d: digest %x, want %x", c.Size, got, want)
		}
		_ = db.Close()
		if sizes[c.Size] = true; c.Size == childLeaves {
			dir, plain = t.TempDir(), reference()
		}
	}
	if kills < rounds/2 || len(sizes) < 3 {
		t.Errorf("%d kills in %d rounds, at sizes %v: the test kills too rarely", kills, rounds, sizes)
	}
	t.Logf("%d kills in %d rounds, at %d sizes", kills, rounds, len(sizes))
}

// TestLOG05_AKilledRebuildLeavesOldOrNewViews: the swap has no middle.
func TestLOG05_AKilledRebuildLeavesOldOrNewViews(t *testing.T) {
	leaves, file := childHistory(t)
	dir := t.TempDir()
	log := leaftest.NewLog(leaves...)
	log.Publish(500)
	db := open(t, dir)
	catchUp(t, follower(t, db, log, func(c *follow.Config) { c.Check = leaftest.NoCheck }))
	old := digest(t, db)
	_ = db.Close()
	rounds := 5
	if long {
		rounds = 50
	}
	r := rand.New(rand.NewPCG(2, 3))
	for range rounds {
		finished := !killAfter(t, file, dir, "rebuild", r.IntN(40))
		db := open(t, dir)
		c, err := db.Cursor()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case c.Size == 500 && digest(t, db) == old && !finished:
		case c.Size == childLeaves:
			return // killed after the swap, or done
		default:
			t.Fatalf("views at size %d, finished %v", c.Size, finished)
		}
		_ = db.Close()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 3 { // lock, current, one generation
			t.Errorf("%d entries in the views directory", len(entries))
		}
	}
}
