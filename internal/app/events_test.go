package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// streamed is a line of the event stream, with the record as it was sent.
type streamed struct {
	LeafIndex int64           `json:"leafIndex"`
	LeafHash  string          `json:"leafHash"`
	EventID   string          `json:"eventId"`
	Record    json.RawMessage `json:"record"`
	Parked    string          `json:"parked"`
	TreeSize  int64           `json:"treeSize"`
}

func parseStreamed(t testing.TB, line []byte) (e streamed) {
	t.Helper()
	if err := json.Unmarshal(line, &e); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return e
}

func (l *ledger) events(query string) (out []streamed) {
	l.t.Helper()
	for line := range bytes.Lines(l.get("/v1/events?follow=false" + query)) {
		out = append(out, parseStreamed(l.t, line))
	}
	return out
}

// fill records n attempts and publishes them.
func (l *ledger) fill(prefix string, n int) {
	l.t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "{\"begin\":%s}\n", beginBody(fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf(`{"i":%d,"text":"<&>é\u2028"}`, i)))
	}
	code, out := l.raw("POST", "/v1/events:batch?wait=published", b.Bytes(), l.Token)
	if code != http.StatusOK || bytes.Count(out, []byte(`"status":201`)) != n {
		l.t.Fatalf("batch of %d: %d %.500s", n, code, out)
	}
}

func TestLOG12_ResumeFromEveryIndex(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 7)
	all := l.events("")
	if len(all) != 7 {
		t.Fatalf("%d events, want 7", len(all))
	}
	for from := range 9 {
		got := l.events("&from=" + strconv.Itoa(from))
		if len(got) != max(0, 7-from) {
			t.Fatalf("from %d: %d events", from, len(got))
		}
		for i, e := range got {
			want := all[from+i]
			if e.LeafIndex != int64(from+i) || e.LeafHash != want.LeafHash || !bytes.Equal(e.Record, want.Record) || e.EventID != want.EventID {
				t.Errorf("from %d, event %d: %+v, want %+v", from, i, e, want)
			}
		}
	}
	for _, bad := range []string{"follow=false&from=-1", "follow=false&from=x", "follow=false&from=1.0", "follow=false&from=%2B1", "follow=false&from=01",
		"follow=false&from=18446744073709551616", "follow=maybe", "follow=false&form=3"} {
		if code, out := l.do("GET", "/v1/events?"+bad, nil); code != http.StatusBadRequest || text(out, "error.hint") == "" {
			t.Errorf("%s: %d %v", bad, code, out)
		}
	}
}

// follow opens a stream that goes on until the test ends.
func (l *ledger) follow(query string, header ...string) *bufio.Reader {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	req, err := http.NewRequestWithContext(ctx, "GET", l.Ready.Listening+"/v1/events"+query, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+l.Token)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { cancel(); res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		l.t.Fatalf("follow %s: %s", query, res.Status)
	}
	return bufio.NewReader(res.Body)
}

// nextLine skips the empty lines of an idle stream.
func nextLine(t testing.TB, r *bufio.Reader) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ends: %v", err)
		}
		if line != "\n" && !strings.HasPrefix(line, ":") {
			return strings.TrimSuffix(line, "\n")
		}
	}
}

func TestLOG12_FollowsAndResumesSSE(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 3)
	nd := l.follow("?from=1")
	sse := l.follow("", "Accept", "text/event-stream", "Last-Event-ID", "0") // resumes behind it
	both := l.follow("?from=0", "Accept", "text/event-stream", "Last-Event-ID", "1")
	readSSE := func(r *bufio.Reader) streamed {
		t.Helper()
		id, kind, data := nextLine(t, r), nextLine(t, r), nextLine(t, r)
		e := parseStreamed(t, []byte(strings.TrimPrefix(data, "data: ")))
		if id != fmt.Sprintf("id: %d", e.LeafIndex) || kind != "event: record" || !strings.HasPrefix(data, "data: ") {
			t.Errorf("%q %q %q", id, kind, data)
		}
		return e
	}
	for want := int64(1); want < 6; want++ {
		if want == 3 {
			l.fill("b", 3)
		}
		if e := parseStreamed(t, []byte(nextLine(t, nd))); e.LeafIndex != want {
			t.Fatalf("NDJSON: index %d, want %d", e.LeafIndex, want)
		}
		if e := readSSE(sse); e.LeafIndex != want {
			t.Fatalf("SSE: index %d, want %d", e.LeafIndex, want)
		}
		if want == 1 {
			continue
		}
		if e := readSSE(both); e.LeafIndex != want {
			t.Fatalf("SSE with from and Last-Event-ID: index %d, want %d", e.LeafIndex, want)
		}
	}
}

// A follower does not keep a ledger from stopping, and sees a clean end.
func TestLOG12_StopEndsTheStreams(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 1)
	r := l.follow("")
	nextLine(t, r)
	l.stop() // fails the test if calls in flight do not end
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// httpTiles reads tiles from /log/ without a token.
type httpTiles struct{ l *ledger }

func (h httpTiles) Height() int                                { return 8 }
func (h httpTiles) SaveTiles(tiles []tlog.Tile, data [][]byte) {}
func (h httpTiles) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, t := range tiles {
		// x/mod writes tile/8/L/N; tlog-tiles leaves the height out.
		path := "/log/tile/" + strings.TrimPrefix(t.Path(), "tile/8/")
		code, b := h.l.raw("GET", path, nil, "")
		if code != http.StatusOK {
			return nil, fmt.Errorf("GET %s: %d %s", path, code, b)
		}
		out[i] = b
	}
	return out, nil
}

// publicTree opens the newest checkpoint under the key of /v1/trust: all that a
// stranger has.
func (l *ledger) publicTree() tlog.Tree {
	l.t.Helper()
	code, raw := l.raw("GET", "/log/checkpoint", nil, "")
	if code != http.StatusOK {
		l.t.Fatalf("checkpoint: %d %s", code, raw)
	}
	v, err := note.NewVerifier(l.trust().Log.String())
	if err != nil {
		l.t.Fatal(err)
	}
	n, err := note.Open(raw, note.VerifierList(v))
	if err != nil {
		l.t.Fatal(err)
	}
	lines := strings.Split(n.Text, "\n")
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || lines[0] != l.Ready.Origin {
		l.t.Fatalf("checkpoint %q: %v", n.Text, err)
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil {
		l.t.Fatal(err)
	}
	return tlog.Tree{N: size, Hash: tlog.Hash(root)}
}

// A consumer that knows C2SP and nothing else proves every event that it was
// given, and that the tree only grew.
func TestLOG12_LOG02_EveryEventIsProvenFromTheTiles(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 300) // a full tile and a partial one
	old := l.publicTree()
	l.fill("b", 240) // two full tiles and a partial one
	tree := l.publicTree()
	if old.N != 300 || tree.N != 540 {
		t.Fatalf("sizes %d and %d", old.N, tree.N)
	}
	hashes := tlog.TileHashReader(tree, httpTiles{l}) // checks every tile against the root
	events := l.events("")
	if int64(len(events)) != tree.N {
		t.Fatalf("%d events, tree size %d", len(events), tree.N)
	}
	for i, e := range events {
		leaf := tlog.RecordHash(e.Record) // the record is the leaf, byte for byte
		if e.LeafIndex != int64(i) || e.Parked != "" || e.LeafHash != base64.StdEncoding.EncodeToString(leaf[:]) {
			t.Fatalf("event %d: %+v is not the hash %s of its record", i, e, base64.StdEncoding.EncodeToString(leaf[:]))
		}
		if i%17 > 1 && i < 530 {
			continue // each proof reads tiles
		}
		proof, err := tlog.ProveRecord(tree.N, int64(i), hashes)
		if err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckRecord(proof, tree.N, tree.Hash, int64(i), leaf); err != nil {
			t.Errorf("event %d is not in the tree: %v", i, err)
		}
	}
	proof, err := tlog.ProveTree(tree.N, old.N, hashes)
	if err != nil {
		t.Fatal(err)
	}
	if err := tlog.CheckTree(proof, tree.N, tree.Hash, old.N, old.Hash); err != nil {
		t.Errorf("the tree of %d is not a prefix of that of %d: %v", old.N, tree.N, err)
	}
}
