package tlog

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"
)

// TestMain makes the test binary the writer that is killed, when asked to.
func TestMain(m *testing.M) {
	if dir := os.Getenv("COUNTERFOIL_TLOG_WRITER"); dir != "" {
		if err := write(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// write appends and publishes until it is killed, and tells what it has been
// told: "logged 17", "published 17".
func write(dir string) error {
	signer, err := note.NewSigner(os.Getenv("COUNTERFOIL_TLOG_SKEY"))
	if err != nil {
		return err
	}
	ctx := context.Background()
	role := os.Getenv("COUNTERFOIL_TLOG_ROLE")
	cfg := Config{
		Dir: dir + "/log", GuardDir: dir + "/guard", Origin: origin, Signer: signer, VerifierKey: os.Getenv("COUNTERFOIL_TLOG_VKEY"),
		Create: true, CheckLeaf: checkLeaf, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if role != "alone" {
		cfg.Fence = tellingFence{}
	}
	l, err := Open(ctx, cfg)
	if err != nil {
		return err
	}
	show := l.Publish
	if role == "follower" {
		show = func(ctx context.Context) (Checkpoint, error) {
			size := l.Size()
			size -= min(size, rand.Uint64N(50)) // another node's batches end elsewhere
			signed, err := note.Sign(&note.Note{Text: checkpointText(origin, treeAt(size))}, signer)
			if err != nil {
				return Checkpoint{}, err
			}
			return l.Adopt(ctx, signed)
		}
	}
	go func() {
		for {
			changed := l.Changed()
			cp, err := show(ctx)
			if err != nil {
				fmt.Println("error", err)
			}
			fmt.Println("published", cp.Size)
			<-changed
		}
	}()
	fmt.Println("logged", l.Size())
	for {
		size, err := l.Append(ctx, leavesFrom(l.Size(), 1+rand.Uint64N(300)))
		if err != nil {
			return err
		}
		fmt.Println("logged", size)
	}
}

// tellingFence lets everything through and tells of it, as the others would see it.
type tellingFence struct{}

func (tellingFence) Reserve(_ context.Context, size uint64, _ [32]byte) error {
	fmt.Println("reserved", size)
	return nil
}

func (tellingFence) Publish(_ context.Context, signed []byte) error {
	_, rest, _ := strings.Cut(string(signed), "\n")
	size, _, _ := strings.Cut(rest, "\n")
	fmt.Println("fenced", size)
	return nil
}

// A writer is killed at random moments. What it was told is there, every time.
func TestINV2_KilledWritersLoseNothing(t *testing.T) { killed(t, "alone") }

// The same for a node that takes over the checkpoints of another.
func TestCLU08_KilledFollowersLoseNothing(t *testing.T) { killed(t, "follower") }

// The same for the one that signs for all. What it reserved is in its own guard,
// and what the others have of it is one of its trees.
func TestCLU03_KilledHoldersLoseNothing(t *testing.T) { killed(t, "holder") }

func killed(t *testing.T, role string) {
	t.Helper()
	rounds := 6
	if os.Getenv("COUNTERFOIL_LONG") != "" {
		rounds = 300
	}
	b := newBench(t)
	exe, err := os.Executable()
	must(t, err)
	told := map[string]uint64{}
	for round := range rounds {
		cmd := exec.Command(exe)
		cmd.Env = append(os.Environ(), "COUNTERFOIL_TLOG_ROLE="+role, "COUNTERFOIL_TLOG_WRITER="+b.dir, "COUNTERFOIL_TLOG_SKEY="+b.skey, "COUNTERFOIL_TLOG_VKEY="+b.vkey)
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		lines := 1 + rand.IntN(20)
		for s := bufio.NewScanner(out); s.Scan(); {
			what, rest, _ := strings.Cut(s.Text(), " ")
			size, err := strconv.ParseUint(rest, 10, 64)
			if err != nil {
				t.Errorf("round %d: the writer says %q", round, s.Text())
			}
			if size < told[what] {
				t.Errorf("round %d: %s %d after %d", round, what, size, told[what])
			}
			told[what] = size
			if what == "logged" {
				if lines--; lines == 0 {
					must(t, cmd.Process.Kill())
				}
			}
		}
		_ = cmd.Wait() // killed

		if size := b.guardSize(); size < max(told["published"], told["reserved"]) {
			t.Errorf("round %d: the guard has size %d; told %v", round, size, told)
		}
		l := b.open()
		if l.Size() < told["logged"] || l.PublishedSize() < told["published"] {
			t.Errorf("round %d: size %d, published %d; told %v", round, l.Size(), l.PublishedSize(), told)
		}
		if fenced := told["fenced"]; fenced > l.PublishedSize() { // the others have it already
			b.adopt(l, b.noteAt(fenced), fenced)
		}
		b.publish(l)
		b.close(l)
		b.fsck()
	}
	l := b.open()
	b.readBack(l.Size())
	if l.Size() == 0 {
		t.Error("nothing was ever appended")
	}
	if told["published"] == 0 || (role == "holder") != (told["fenced"] > 0) {
		t.Errorf("nothing was ever shown: told %v", told)
	}
}
