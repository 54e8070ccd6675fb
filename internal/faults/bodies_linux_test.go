package faults

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"testing"
)

// TestCaseDiskFull_LOG14_KeptBodiesNeverKillTheLedger fills a small disk with
// private values that are kept. The vault's compactions write its tables again
// before they delete them: the ledger refuses with 503 disk_full while there is
// room for that, and is not killed by what it writes itself.
func TestCaseDiskFull_LOG14_KeptBodiesNeverKillTheLedger(t *testing.T) {
	dir := filepath.Join(smallDisk(t), "data")
	p := start(t, dir)
	random := rand.NewChaCha8([32]byte{1})
	value := make([]byte, 3_000_000)
	var kept []string
	refused := 0
	for i := 0; i < 40 && refused < 12; i++ {
		_, _ = random.Read(value) // never fails
		var begin map[string]any
		if err := json.Unmarshal(beginBody(fmt.Sprintf("kept-%d", i)), &begin); err != nil {
			t.Fatal(err)
		}
		begin["keepBody"], begin["privateInput"] = true, base64.StdEncoding.EncodeToString(value)
		b, err := json.Marshal(begin)
		if err != nil {
			t.Fatal(err)
		}
		code, answer, err := p.call(http.MethodPost, "/v1/attempts", b)
		if err != nil {
			t.Fatalf("begin %d: %v; %s", i, err, tail(p.stderr.String()))
		}
		var r receipt
		var no refusal
		switch {
		case code == http.StatusCreated && json.Unmarshal(answer, &r) == nil:
			kept = append(kept, r.AttemptID)
		case code == http.StatusServiceUnavailable && json.Unmarshal(answer, &no) == nil && no.Error.Reason == "disk_full":
			refused++
		default:
			t.Fatalf("begin %d: %d %.300s", i, code, answer)
		}
	}
	t.Logf("%d kept, %d refused, %d bytes free", len(kept), refused, free(t, dir))
	if len(kept) < 2 || refused == 0 {
		t.Errorf("%d kept and %d refused; want some of both", len(kept), refused)
	}
	p.stop()
	p = start(t, dir)
	for _, id := range kept {
		if code, b, err := p.call(http.MethodGet, "/v1/attempts/"+id, nil); err != nil || code != http.StatusOK {
			t.Errorf("attempt %s: %d %.200s %v", id, code, b, err)
		}
	}
	p.stop()
}
