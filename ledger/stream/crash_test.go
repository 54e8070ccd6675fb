package stream

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

var long = os.Getenv("COUNTERFOIL_LONG") != ""

var errCrash = errors.New("crash")

// A heal that is cut off at any step, by an error or by a kill, comes to the
// same end at the next start.
func TestDUR_HealSurvivesCrashAtEveryStep(t *testing.T) {
	const stored, logged = 300, 270
	all := bigLeaves
	damaged := filledBig(t)
	must(t, os.Remove(blocks(t, damaged)[0]))
	want := append(leaves(nil), all...)

	heal := func(t *testing.T, dir, aside string, hook func(string) error) (*Report, error) {
		s, err := Open(t.Context(), testConfig(dir))
		must(t, err)
		defer closeStream(t, s)
		s.hook = hook
		return s.Heal(t.Context(), healConfig(all[:logged], aside))
	}
	fresh := func(t *testing.T) (dir, aside string) {
		dir, aside = filepath.Join(t.TempDir(), "stream"), filepath.Join(t.TempDir(), "aside")
		must(t, os.CopyFS(dir, os.DirFS(damaged)))
		return dir, aside
	}
	// The steps of a run that nothing cuts off.
	var steps []string
	dir, aside := fresh(t)
	_, err := heal(t, dir, aside, func(step string) error { steps = append(steps, step); return nil })
	must(t, err)

	names := map[string]bool{}
	kills := 0
	for i, step := range steps {
		// Of a run of equal steps the first and the last.
		edge := i == 0 || steps[i-1] != step || i+1 == len(steps) || steps[i+1] != step
		if !edge && !long {
			continue
		}
		names[step] = true
		t.Run(strconv.Itoa(i)+" "+step, func(t *testing.T) {
			dir, aside := fresh(t)
			if kills++; kills%2 == 0 { // by a kill
				p := run(t, task{Name: "heal", Dir: dir, Aside: aside, CrashAt: i + 1, Logged: logged, Stored: stored})
				err := p.cmd.Wait()
				if ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() {
					t.Fatalf("child was not killed: %v: %s", err, p.errs)
				}
			} else {
				n := 0
				_, err := heal(t, dir, aside, func(string) error {
					if n++; n == i+1 {
						return errCrash
					}
					return nil
				})
				if !errors.Is(err, errCrash) {
					t.Fatalf("heal: %v", err)
				}
			}
			s := open(t, testConfig(dir))
			r := mustHeal(t, s, healConfig(all[:logged], aside))
			if r.Action != Rebuilt || r.Reappended != stored-logged || r.Announce() {
				t.Errorf("report %+v", r)
			}
			mustHold(t, s, want)
			mustSetAside(t, r.AsideFile, all, span(logged, stored))
			files, err := os.ReadDir(aside)
			must(t, err)
			for _, f := range files {
				if !strings.HasPrefix(f.Name(), ".") && f.Name() != filepath.Base(r.AsideFile) {
					t.Errorf("left behind: %s", f.Name())
				}
			}
		})
	}
	for _, step := range []string{"aside", "journal-write", "delete", "create", "republish", "reappend", "journal-remove"} {
		if !names[step] {
			t.Errorf("no crash at step %s: steps are %v", step, names)
		}
	}
}

// A refill that is cut off goes on where it was.
func TestDUR_RefillSurvivesCrash(t *testing.T) {
	all := makeLeaves(3000, 50)
	dir := filled(t, all[:1000])
	for _, at := range []int{1, 700, 1500} {
		s, err := Open(t.Context(), testConfig(dir))
		must(t, err)
		n := 0
		s.hook = func(string) error {
			if n++; n == at {
				return errCrash
			}
			return nil
		}
		if _, err := s.Heal(t.Context(), healConfig(all, t.TempDir())); !errors.Is(err, errCrash) && err != nil {
			t.Fatal(err)
		}
		closeStream(t, s)
	}
	s := open(t, testConfig(dir))
	mustHeal(t, s, healConfig(all, t.TempDir()))
	mustHold(t, s, all)
}

// Messages that were set aside and have become leaves since have their place.
func TestDUR_RebuildAfterTheLogGrew(t *testing.T) {
	dir := filledBig(t)
	must(t, os.Remove(blocks(t, dir)[0]))
	aside := t.TempDir()
	s := open(t, testConfig(dir))
	s.hook = func(step string) error {
		if step == "delete" {
			return errCrash
		}
		return nil
	}
	if _, err := s.Heal(t.Context(), healConfig(bigLeaves[:270], aside)); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	s.hook = nil
	r := mustHeal(t, s, healConfig(bigLeaves[:280], aside))
	if r.Republished != 280 || r.Reappended != 20 || r.Announce() {
		t.Errorf("report %+v", r)
	}
	mustHold(t, s, bigLeaves)
}

// A journal that does not fit is never ignored.
func TestDUR_JournalMustFit(t *testing.T) {
	all := bigLeaves
	s := open(t, testConfig(filledBig(t)))
	for name, damage := range map[string]func(t *testing.T, j *journal, aside string){
		"file gone":        func(t *testing.T, j *journal, aside string) { must(t, os.Remove(filepath.Join(aside, j.Aside))) },
		"file shortened":   func(t *testing.T, j *journal, aside string) { truncateBy(t, filepath.Join(aside, j.Aside), 1) },
		"log was longer":   func(t *testing.T, j *journal, aside string) { j.LogSize = 291 },
		"other stream":     func(t *testing.T, j *journal, aside string) { j.Stream = "OTHER" },
		"name with a path": func(t *testing.T, j *journal, aside string) { j.Aside = "../" + j.Aside },
		"unknown schema":   func(t *testing.T, j *journal, aside string) { j.Schema = "counterfoil.rebuild.v2" },
	} {
		t.Run(name, func(t *testing.T) {
			h := &healer{s: s, cfg: healConfig(all[:290], t.TempDir()), size: 290}
			var err error
			h.report.Before, err = s.State(t.Context())
			must(t, err)
			j, err := h.setAside(t.Context())
			must(t, err)
			damage(t, j, h.cfg.AsideDir)
			must(t, h.writeJournal(j))
			if _, err := s.Heal(t.Context(), h.cfg); err == nil {
				t.Error("heal went on")
			}
			mustHold(t, s, all)
		})
	}
}

// KILL -9 of the process with the embedded server: everything acknowledged is
// there, in order, and healing finds nothing to do.
func TestDUR_KillWhilePublishing(t *testing.T) {
	rounds := 3
	if long {
		rounds = 50
	}
	dir := t.TempDir()
	var acked uint64
	for range rounds {
		p := run(t, task{Name: "publish", Dir: dir})
		for range 200 {
			n, err := strconv.ParseUint(p.line(t), 10, 64)
			must(t, err)
			acked = n
		}
		for _, line := range strings.Fields(p.kill()) {
			if n, err := strconv.ParseUint(line, 10, 64); err == nil && n > acked {
				acked = n
			}
		}
		s, err := Open(t.Context(), testConfig(dir))
		must(t, err)
		st, err := s.State(t.Context())
		must(t, err)
		if st.Last < acked || st.First != 1 || st.Deleted != 0 {
			t.Fatalf("state %+v, %d were acknowledged", st, acked)
		}
		if r := mustHeal(t, s, healConfig(nil, t.TempDir())); r.Action != Nothing {
			t.Fatalf("report %+v", r)
		}
		closeStream(t, s)
	}
}
