package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// running holds the ledgers of all scripts, by working folder and name.
var running sync.Map

// ledgerCommand is
//
//	ledger start NAME DIR [flag…]   serve until told to stop; sets COUNTERFOIL_SERVER and COUNTERFOIL_TOKEN_FILE
//	ledger stop NAME                SIGTERM; it must end with 0
//	ledger kill NAME                SIGKILL
//
// Stdout goes to NAME.out, stderr to NAME.log in the working folder.
func ledgerCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: ledger start|stop|kill NAME [DIR [flag…]]")
	}
	key := ts.MkAbs(args[1])
	if args[0] == "start" {
		if len(args) < 3 {
			ts.Fatalf("usage: ledger start NAME DIR [flag…]")
		}
		startLedger(ts, key, args[2], args[3:])
		return
	}
	v, ok := running.LoadAndDelete(key)
	if !ok {
		ts.Fatalf("no ledger %s runs", args[1])
	}
	cmd := v.(*exec.Cmd)
	sig := map[string]os.Signal{"stop": syscall.SIGTERM, "kill": os.Kill}[args[0]]
	ts.Check(cmd.Process.Signal(sig))
	if err := cmd.Wait(); err != nil && sig != os.Kill {
		log, _ := os.ReadFile(key + ".log")
		ts.Fatalf("the ledger ended with %v\n%s", err, log)
	}
}

func startLedger(ts *testscript.TestScript, key, dir string, flags []string) {
	log, err := os.OpenFile(key+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer log.Close()
	cmd := exec.Command(binary(ts), append([]string{"serve", "--data", ts.MkAbs(dir), "--listen", "127.0.0.1:0"}, flags...)...)
	cmd.Dir, cmd.Stderr = ts.MkAbs("."), log
	cmd.Env = []string{"HOME=" + ts.Getenv("HOME"), "PATH=" + ts.Getenv("PATH"), "TMPDIR=" + ts.Getenv("TMPDIR")}
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	running.Store(key, cmd)
	ts.Defer(func() {
		if v, ok := running.LoadAndDelete(key); ok && v == cmd {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	ts.Check(os.WriteFile(key+".out", line, 0o600))
	var ready struct{ Listening, Data string }
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		text, _ := os.ReadFile(key + ".log")
		ts.Fatalf("the ledger did not start: %v\n%s", err, text)
	}
	ts.Setenv("COUNTERFOIL_SERVER", ready.Listening)
	ts.Setenv("COUNTERFOIL_TOKEN_FILE", filepath.Join(ready.Data, "token"))
}

// binary finds this program in the PATH of the script.
func binary(ts *testscript.TestScript) string {
	for _, dir := range filepath.SplitList(ts.Getenv("PATH")) {
		if p := filepath.Join(dir, "counterfoil"); isFile(p) {
			return p
		}
	}
	ts.Fatalf("counterfoil is not in the script's PATH")
	return ""
}

func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}

// jsonenvCommand sets VAR to the member at a dotted path of a document:
// jsonenv VAR FILE a.0.b
func jsonenvCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: jsonenv VAR FILE PATH")
	}
	v, ok := member(ts, args[1], args[2])
	if !ok {
		ts.Fatalf("%s has no %s", args[1], args[2])
	}
	ts.Setenv(args[0], v)
}

// jsonisCommand compares the member at a path: jsonis FILE PATH VALUE. With !
// it must be something else, or absent.
func jsonisCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: [!] jsonis FILE PATH VALUE")
	}
	got, ok := member(ts, args[0], args[1])
	if same := ok && got == args[2]; same == neg {
		ts.Fatalf("%s at %s is %q, there: %v", args[0], args[1], got, ok)
	}
}

func member(ts *testscript.TestScript, file, path string) (string, bool) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(file)))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	for _, name := range strings.Split(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			var ok bool
			if v, ok = at[name]; !ok {
				return "", false
			}
		case []any:
			if name == "length" {
				v = json.Number(strconv.Itoa(len(at)))
				continue
			}
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(at) {
				return "", false
			}
			v = at[i]
		default:
			return "", false
		}
	}
	return fmt.Sprint(v), true
}

// absentCommand fails if any file below the paths holds the string, in clear,
// in base64 or in UTF-16; it wants at least one file to look at:
// absent STRING PATH…. With ! the string must be found in clear.
func absentCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: [!] absent STRING PATH…")
	}
	needles, files, found := spellings(args[0]), 0, ""
	for _, path := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(path), func(p string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(p)
			files++
			for _, n := range needles {
				if bytes.Contains(b, n) {
					found = p
				}
			}
			return err
		}))
	}
	if files == 0 {
		ts.Fatalf("there is no file in %v", args[1:])
	}
	if (found != "") != neg {
		ts.Fatalf("found in %q, of %d files", found, files)
	}
}

// spellings are the ways in which a value could lie about: in clear, in UTF-16,
// in hex, and in base64 at each of its three offsets.
func spellings(s string) [][]byte {
	var wide []byte
	for i := range len(s) {
		wide = append(wide, s[i], 0)
	}
	out := [][]byte{[]byte(s), wide, fmt.Appendf(nil, "%x", s)}
	for offset := range 3 {
		enc := base64.StdEncoding.EncodeToString(append(make([]byte, offset), s...))
		// The first group also holds what was before, the last what comes after.
		out = append(out, []byte(enc[4:len(enc)-4]))
	}
	return out
}
