package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestClusterWithoutLeader: two of three nodes are gone. The third says soon how the
// cluster stands as far as it knows it, and that the stream has no leader, although
// everything else waits for one for 20 seconds (LOG-14).
func TestClusterWithoutLeader(t *testing.T) {
	ns := threeNodes(t)
	ns.all[0].begin("before")
	ns.settled(1)
	ns.stop(1)
	ns.stop(2)
	l := ns.all[0]
	ask := func() (out obj) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, "GET", l.Ready.Listening+"/v1/cluster", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+l.Token)
		_, _, b := l.answer(http.DefaultClient.Do, req)
		if err := json.Unmarshal(b, &out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		c := ask()
		if text(c, "stream.leader") == "" {
			if trouble := text(c, "stream.trouble"); !strings.Contains(trouble, "no leader") || !strings.Contains(trouble, "n1 is connected to") {
				t.Errorf("the stream's trouble: %q", trouble)
			}
			for _, known := range []string{"members", "nodes"} {
				if list, _ := c[known].([]any); len(list) != 3 {
					t.Errorf("%s: %v", known, list)
				}
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the stream keeps a leader: %v", c)
		}
	}
}
