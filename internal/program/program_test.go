package program

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestATT34_OnlyProgramsThatAreSafelyKept(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, mode fs.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := make("good", 0o755)
	link := filepath.Join(dir, "link")
	open := filepath.Join(dir, "open")
	sticky := filepath.Join(dir, "sticky")
	if err := errors.Join(os.Symlink(good, link), os.Mkdir(open, 0o700), os.Mkdir(sticky, 0o700)); err != nil {
		t.Fatal(err)
	}
	inOpen, inSticky := make("open/p", 0o700), make("sticky/p", 0o700)
	if err := errors.Join(os.Chmod(open, 0o777), os.Chmod(sticky, 0o777|fs.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		good: nil, inSticky: nil,
		"": ErrPath, "good": ErrPath, "./good": ErrPath, dir + "/../x/good": ErrPath, good + "/": ErrPath, dir + "//good": ErrPath,
		filepath.Join(dir, "none"): fs.ErrNotExist,
		link:                       ErrUnsafe, dir: ErrUnsafe, inOpen: ErrUnsafe,
		make("group", 0o720): ErrUnsafe, make("others", 0o702): ErrUnsafe, make("plain", 0o600): ErrUnsafe,
	} {
		if err := Check(path); !errors.Is(err, want) || (err == nil) != (want == nil) {
			t.Errorf("%q: %v, want %v", path, err, want)
		}
	}
}
