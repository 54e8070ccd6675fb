package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestLogPathsHaveOneSpelling(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 300)
	for _, path := range []string{"checkpoint", "tile/0/000", "tile/0/001.p/44", "tile/1/000.p/1", "tile/entries/000", "tile/entries/001.p/44"} {
		code, h, body := l.call("GET", "/log/"+path, "", "")
		if code != http.StatusOK || body == "" {
			t.Errorf("GET /log/%s: %d %.200s", path, code, body)
		}
		want := [2]string{"application/octet-stream", "public, max-age=31536000, immutable"}
		if path == "checkpoint" {
			want = [2]string{"text/plain; charset=utf-8", "no-cache"}
		}
		if got := [2]string{h.Get("Content-Type"), h.Get("Cache-Control")}; got != want {
			t.Errorf("GET /log/%s: %q, want %q", path, got, want)
		}
		if h.Get("Access-Control-Allow-Origin") != "*" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Set-Cookie") != "" {
			t.Errorf("GET /log/%s: %v", path, h)
		}
		code, head, _ := l.call("HEAD", "/log/"+path, "", "")
		if code != http.StatusOK || head.Get("Content-Length") != fmt.Sprint(len(body)) {
			t.Errorf("HEAD /log/%s: %d %v", path, code, head)
		}
	}
	for _, path := range []string{
		"", "checkpoint/", "Checkpoint", "checkpoint.sig", "checkpoint%00", "%63heckpoint", "./checkpoint", "x/../checkpoint", "/checkpoint", "..%2flog/checkpoint",
		"tile", "tile/", "tile/0", "tile/0/", "tile/0/0", "tile/0/00", "tile/0/0000", "tile/00/000", "tile/-1/000", "tile/+0/000", "tile/0x0/000", "tile/64/000", "tile/256/000",
		"tile/0/000/", "tile//000", "tile/0//000", "tile/0/000.p", "tile/0/000.p/", "tile/0/000.p/0", "tile/0/000.p/00", "tile/0/000.p/01", "tile/0/000.p/256", "tile/0/000.p/044",
		"tile/0/x000/000", "tile/0/x000", "tile/0/001x/000", "tile/0/X001/000", "tile/entries/x000/000", "tile/entries/", "tile/Entries/000", "tile/data/000", "tile/8/0/000",
		"tile/0/001", "tile/0/002", "tile/0/001.p/45", "tile/0/001.p/255", "tile/1/000", "tile/1/000.p/2", "tile/1/001", "tile/2/000", "tile/2/000.p/1", "tile/7/000.p/1", "tile/63/000.p/1",
		"tile/entries/001", "tile/entries/001.p/45", "tile/entries/002.p/1", "tile/0/x999/x999/x999/x999/x999/x999/999", "tile/0/x999/x999/x999/x999/x999/x999/x999/999",
		".state", ".state/treeState", ".state/version", "tile/.state", "tile/../.state", "tile/0/../0/000", "tile/0/%2e%2e/0/000", "tile%2f0%2f000", "tile/0%2f000", "tile/0/000%2ep/1",
		"..", "../keys/event.key", "..%2fkeys%2fevent.key", "%2e%2e/token", "%2e%2e%2ftoken", "....//token", `..\token`, "..%5ctoken", "tile/entries/../../../token", "%00", "tile/0/000%00",
		"tile/0/000 ", "tile/0/%30%30%30", "tile/0/０００", "issuer/x", "index.html", "add-checkpoint",
	} {
		code, h, body := l.call("GET", "/log/"+path, "", "")
		if code == http.StatusOK {
			t.Errorf("GET /log/%s is served: %.100q", path, body)
		}
		// What is not there must not be kept by a cache: it may come.
		if strings.Contains(h.Get("Cache-Control"), "max-age") {
			t.Errorf("GET /log/%s: %d may be cached: %q", path, code, h.Get("Cache-Control"))
		}
		if code >= 500 {
			t.Errorf("GET /log/%s: %d", path, code)
		}
	}
}

// Every tile that the published size asks for is there, at every size on the way.
func TestLogServesAllTilesOfItsSize(t *testing.T) {
	l := newLedger(t)
	for _, n := range []int{1, 254, 1, 1, 3} { // 1, 255, 256, 257, 260
		l.fill(fmt.Sprintf("s%d-%v", n, l.streamLast()), n)
		size := l.publicTree().N
		for level, m := 0, size; m > 0; level, m = level+1, m/256 {
			for i := int64(0); i*256 < m; i++ {
				names := []string{fmt.Sprintf("tile/%d/%03d", level, i)}
				if level == 0 {
					names = append(names, fmt.Sprintf("tile/entries/%03d", i))
				}
				for _, name := range names {
					width := min(256, m-i*256)
					if width < 256 {
						name += fmt.Sprintf(".p/%d", width)
					}
					code, b := l.raw("GET", "/log/"+name, nil, "")
					if code != http.StatusOK || strings.HasPrefix(name, "tile/entries") == (int64(len(b)) == 32*width) {
						t.Errorf("size %d: GET /log/%s: %d, %d bytes", size, name, code, len(b))
					}
				}
			}
		}
	}
}

// A checkpoint of another node may be of any size: the tiles that end there are
// served, whatever batches wrote this log.
func TestCLU08_TilesOfEverySizeAreServed(t *testing.T) {
	l := newLedger(t)
	l.fill("a", 300)
	for _, whole := range []string{"tile/0/000", "tile/entries/000", "tile/0/001.p/44", "tile/entries/001.p/44"} {
		_, all := l.raw("GET", "/log/"+whole, nil, "")
		base, _, _ := strings.Cut(whole, ".p/")
		for _, width := range []int{1, 7, 43} {
			path := fmt.Sprintf("%s.p/%d", base, width)
			code, b := l.raw("GET", "/log/"+path, nil, "")
			if code != http.StatusOK || !strings.HasPrefix(string(all), string(b)) || !strings.Contains(path, "entries") && len(b) != 32*width || len(b) == 0 || len(b) >= len(all) {
				t.Errorf("GET /log/%s: %d, %d bytes; all of it has %d", path, code, len(b), len(all))
			}
		}
	}
}
