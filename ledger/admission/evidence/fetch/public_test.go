package fetch

import (
	"net/http"
	"strings"
	"testing"
)

func TestADM21_EntriesDoNotReachIntoOurOwnNetwork(t *testing.T) {
	for address, public := range map[string]bool{
		"93.184.216.34:443":        true,
		"[2606:2800:220:1::1]:443": true,
		"127.0.0.1:443":            false,
		"[::1]:443":                false,
		"10.1.2.3:443":             false,
		"172.16.0.1:443":           false,
		"192.168.1.1:443":          false,
		"169.254.169.254:80":       false,
		"100.100.100.200:80":       false,
		"0.0.0.0:443":              false,
		"224.0.0.1:443":            false,
		"255.255.255.255:443":      false,
		"[fe80::1]:443":            false,
		"[fd00::1]:443":            false,
		"[::ffff:127.0.0.1]:443":   false,
		"[64:ff9b::a01:203]:443":   false,
		"[64:ff9b::5db8:d822]:443": true,
		"[64:ff9b::7f00:1]:443":    false,
		"example.com:443":          false, // not looked up yet
	} {
		if err := checkPublic(address); (err == nil) != public {
			t.Errorf("%s: %v", address, err)
		}
	}
	s := server(t, func(http.ResponseWriter, *http.Request) { t.Error("a server of our own network was asked") })
	f := fetcher(t, nil, func(c *Config) { c.Transport = Public() })
	b, err := f.Get(t.Context(), Request{Locator: strings.Replace(s.URL, "127.0.0.1", "localhost", 1)})
	wantKind(t, b, err, Unavailable, "no public address")
}
