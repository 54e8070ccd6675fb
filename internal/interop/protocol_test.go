package interop

import (
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"
)

// TestLOG08_OneTableForThreeWitnesses sends the same requests to our witness, to
// litewitness and to omniwitness. Ours answers as the specification says. Where
// a peer does otherwise, what it does stands in the table, so that a new version
// of it shows.
func TestLOG08_OneTableForThreeWitnesses(t *testing.T) {
	const origin = "protocol.example/log"
	l := newTree(t, origin, "leaf ", 40)
	fork := l.fork(t)
	stranger := newTree(t, "stranger.example/log", "leaf ", 40)
	ours, lite, omni := startOurs(t, t.TempDir(), l.vkey), startLite(t, t.TempDir(), l.vkey), startOmni(t, t.TempDir(), l.vkey)
	zeros := tlog.Hash{}
	emptyWrong := l.sign(t, origin+"\n0\n"+zeros.String()+"\n")
	badLine := func(checkpoint string) string { // a second line by the log's key that does not verify
		i := strings.LastIndex(checkpoint, "\n—")
		line := checkpoint[i+1:]
		j := strings.LastIndex(line, " ") + 20
		c := byte('A')
		if line[j] == c {
			c = 'B'
		}
		return checkpoint[:i+1] + line[:j] + string(c) + line[j+1:]
	}
	for _, step := range []struct {
		name       string
		body       string
		want       int
		lite, omni int // 0: as specified
		size       string
	}{
		{name: "not a request", body: "hello", want: 400},
		{name: "unknown origin", body: stranger.request(t, 0, 5), want: 404, lite: 403, omni: 500},
		{name: "empty tree with another root", body: request("0", nil, emptyWrong), want: 422, lite: 200},
		{name: "proof from nothing", body: request("0", []tlog.Hash{zeros}, l.checkpoint(t, 5)), want: 422, lite: 200, omni: 200},
		{name: "first", body: l.request(t, 0, 5), want: 200, lite: 409, omni: 409},
		{name: "old 0 to learn the size", body: l.request(t, 0, 10), want: 409, size: "5\n"},
		{name: "the same size again", body: l.request(t, 5, 5), want: 200},
		{name: "growth", body: l.request(t, 5, 10), want: 200},
		{name: "old above the size", body: l.request(t, 10, 7), want: 400},
		{name: "leading zero in old", body: strings.Replace(l.request(t, 10, 10), "old 10", "old 010", 1), want: 400, lite: 200, omni: 200},
		{name: "plus before old", body: strings.Replace(l.request(t, 10, 10), "old 10", "old +10", 1), want: 400, lite: 200},
		{name: "words behind old", body: strings.Replace(l.request(t, 10, 10), "old 10", "old 10 x", 1), want: 400, omni: 200},
		{name: "CR LF before the note", body: strings.Replace(l.request(t, 10, 10), "old 10\n\n", "old 10\r\n\r\n", 1), want: 400, omni: 200},
		{name: "size with a leading zero", body: request("10", nil, l.sign(t, strings.Replace(textOf(l.checkpoint(t, 10)), "\n10\n", "\n010\n", 1))), want: 400, lite: 500, omni: 200},
		{name: "root of 31 bytes", body: request("10", nil, l.sign(t, origin+"\n10\n"+strings.Repeat("A", 42)+"==\n")), want: 400, lite: 500, omni: 422},
		{name: "extension line", body: request("10", nil, l.sign(t, textOf(l.checkpoint(t, 10))+"more\n")), want: 200},
		{name: "empty extension line", body: request("10", nil, l.sign(t, textOf(l.checkpoint(t, 10))+"\n")), want: 400, lite: 500, omni: 200},
		{name: "good and bad line of the log", body: request("10", nil, l.checkpoint(t, 10)+strings.SplitAfterN(badLine(l.checkpoint(t, 10)), "\n\n", 2)[1]), want: 403, lite: 200, omni: 200},
		{name: "only a bad line of the log", body: request("10", nil, badLine(l.checkpoint(t, 10))), want: 403, omni: 500},
		{name: "another root at the stored size", body: fork.request(t, 10, 10), want: 422},
		{name: "another history", body: fork.request(t, 10, 20), want: 422},
		{name: "no proof", body: request("10", nil, l.checkpoint(t, 20)), want: 422},
		{name: "one hash too many", body: request("10", append(l.proof(t, 10, 20), zeros), l.checkpoint(t, 20)), want: 422},
		{name: "a proof between equal sizes", body: request("10", []tlog.Hash{zeros}, l.checkpoint(t, 10)), want: 422},
		{name: "16 signatures of 5 kB", body: l.request(t, 10, 20) + strings.Repeat("— pq.example "+strings.Repeat("AAAA", 1667)+"\n", 16), want: 200, lite: 500, omni: 400},
	} {
		for _, w := range []struct {
			*witness
			name string
			want int
		}{{ours, "ours", step.want}, {lite, "litewitness", or(step.lite, step.want)}, {omni, "omniwitness", or(step.omni, step.want)}} {
			got := w.post(t, step.body)
			if got.status != w.want {
				t.Errorf("%s: %s answers %d, want %d: %s", step.name, w.name, got.status, w.want, got.body)
			}
			if got.status == 409 && step.size != "" && (got.body != step.size || got.contentType != "text/x.tlog.size") {
				t.Errorf("%s: %s answers %q as %s", step.name, w.name, got.body, got.contentType)
			}
		}
	}
	// A first request with an old size: the latest is of size 0.
	late := newTree(t, "late.example/log", "leaf ", 20)
	for _, w := range []struct {
		*witness
		want answer
	}{
		{startOurs(t, t.TempDir(), late.vkey), answer{409, "text/x.tlog.size", "0\n"}},
		{startLite(t, t.TempDir(), late.vkey), answer{409, "text/x.tlog.size", "0\n"}},
		{startOmni(t, t.TempDir(), late.vkey), answer{status: 200}}, // trusts the first that it sees
	} {
		got := w.post(t, late.request(t, 7, 12))
		if got.status != w.want.status || got.status == 409 && got != w.want {
			t.Errorf("%s answers a first request with old 7 with %+v, want %+v", w.cmd.Path, got, w.want)
		}
	}
}

func textOf(checkpoint string) string {
	text, _, _ := strings.Cut(checkpoint, "\n\n")
	return text + "\n"
}

func or(a, b int) int {
	if a != 0 {
		return a
	}
	return b
}
