package interop

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestLOG08_LoadTestOfOthers: the load test of transparency-dev drives our
// witness until it has taken 700 updates a second without one late answer; it
// ends with an error as soon as an answer is not as it should be.
//
// It asks for a proof from the empty tree, which the version of the Merkle
// library that it names itself refuses. So it is built with a copy of that
// library that answers with an empty one, as versions before did.
func TestLOG08_LoadTestOfOthers(t *testing.T) {
	const merkle = "github.com/transparency-dev/merkle"
	library := copyOf(t, merkle)
	file := filepath.Join(library, "proof", "proof.go")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(b), `return Nodes{}, fmt.Errorf("consistency proof from empty tree is meaningless")`, "return Nodes{}, nil", 1)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	write(t, file, text)
	bin := programWith(t, loadtest, "-replace="+merkle+"="+library)
	cmd := exec.Command(bin, "--log_count", "64", "--num_extra_sigs", "2")
	list, err := cmd.Output() // without a target it prints its logs and ends
	if err != nil {
		t.Fatal(err)
	}
	keys := regexp.MustCompile(`PublicKey: (\S+)`).FindAllStringSubmatch(string(list), -1)
	if len(keys) != 64 {
		t.Fatalf("%d keys in\n%s", len(keys), list)
	}
	var vkeys []string
	for _, k := range keys {
		vkeys = append(vkeys, k[1])
	}
	w := startOurs(t, t.TempDir(), vkeys...)
	p := run(t, bin, "--log_count", "64", "--num_extra_sigs", "2", "--target", w.url, "--start_qps", "500", "--success_qps", "700", "--timeout", "20s", "--logtostderr")
	go func() { _, _ = io.Copy(io.Discard, p.stdout) }()
	late := time.AfterFunc(2*time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer late.Stop()
	p.wait()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || !strings.Contains(p.stderr.String(), "Exiting successfully") {
		t.Fatalf("exit code %d", code)
	}
	metrics, err := get(w.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(metrics)) {
		if strings.Contains(line, "add_checkpoint_total{") && !strings.Contains(line, `"200"`) && !strings.HasSuffix(line, " 0\n") {
			t.Errorf("refused: %s", line)
		}
	}
}

// TestLOG10_FeederOfOthers: the feeder of transparency-dev reads our running
// ledger and feeds two witnesses, ours and its own maker's.
//
// The feeder has its logs compiled in, and one package that it imports for logs
// of another kind has no entry in the checksum database. So it is built from the
// downloaded module with another list, and with an empty stand-in for that
// package.
func TestLOG10_FeederOfOthers(t *testing.T) {
	l := startLedger(t, t.TempDir())
	l.begin(t, 300)
	ours, omni := startOurs(t, t.TempDir(), l.vkey), startOmni(t, t.TempDir(), l.vkey)
	bin := buildFeeder(t, fmt.Sprintf("Logs:\n  - Origin: %s\n    URL: %s/log/\n    PublicKey: %s\n    Feeder: tiles\n", l.origin, l.url, l.vkey))
	p := run(t, bin, "--witness_url", ours.url, "--witness_url", omni.url, "--max_qps", "50", "--metrics_listen", "", "--logtostderr")
	at := func(w *witness) string {
		resp, err := http.Get(fmt.Sprintf("%s/%x/checkpoint", w.url, sha256.Sum256([]byte(l.origin))))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			return ""
		}
		opened(t, string(b), l.vkey, w)
		return strings.Split(string(b), "\n")[1]
	}
	for _, size := range []string{"300", "301", "900"} {
		eventually(t, "our witness is fed to "+size, func() bool { return at(ours) == size })
		switch size {
		case "300":
			l.begin(t, 1)
		case "301":
			l.begin(t, 599)
		}
	}
	eventually(t, "both witnesses are fed", func() bool {
		return strings.Contains(p.stderr.String(), "✅ "+ours.url) && strings.Contains(p.stderr.String(), "✅ "+omni.url)
	})
	if strings.Contains(p.stderr.String(), "❌") {
		t.Error("a witness refused")
	}
}

// buildFeeder builds the feeder with a log list of ours.
func buildFeeder(t testing.TB, logs string) string {
	t.Helper()
	const module = "github.com/transparency-dev/witness"
	source, stand := copyOf(t, module), t.TempDir()
	config := filepath.Join(source, "omniwitness", "logs.yaml")
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	write(t, config, logs)
	if err := os.MkdirAll(filepath.Join(stand, "client"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(stand, "go.mod"), "module github.com/transparency-dev/serverless-log\n\ngo 1.25.0\n")
	write(t, filepath.Join(stand, "client", "client.go"), `package client

import (
	"context"
	"errors"
)

type Fetcher func(context.Context, string) ([]byte, error)

type ProofBuilder struct{}

func NewProofBuilderForSize(context.Context, uint64, func(l, r []byte) []byte, Fetcher) ProofBuilder {
	return ProofBuilder{}
}

func (ProofBuilder) ConsistencyProof(context.Context, uint64, uint64) ([][]byte, error) {
	return nil, errors.New("a stand-in")
}
`)
	return programWith(t, module+"/cmd/feedwitness", "-replace="+module+"="+source, "-replace=github.com/transparency-dev/serverless-log="+stand,
		"-require=github.com/transparency-dev/serverless-log@v0.0.0-20250425165558-64e1d2007a10")
}

// copyOf copies a downloaded module.
func copyOf(t testing.TB, module string) string {
	t.Helper()
	var mod struct{ Dir string }
	list, err := exec.Command("go", "list", "-m", "-json", module).Output()
	if err == nil {
		err = json.Unmarshal(list, &mod)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, list)
	}
	dir := filepath.Join(t.TempDir(), "module")
	if err := os.CopyFS(dir, os.DirFS(mod.Dir)); err != nil {
		t.Fatal(err)
	}
	return dir
}
