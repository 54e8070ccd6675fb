package app

import (
	"strings"
	"testing"
)

// A node whose routes name itself would wait for the others for ever.
func TestRouteToItself(t *testing.T) {
	c := Cluster{Name: "c", Node: "n1", Listen: "127.0.0.1:6222", Routes: []string{"127.0.0.1:6222", "127.0.0.1:6223"}}
	if err := c.validate("", false); err == nil || !strings.Contains(err.Error(), "own address") {
		t.Errorf("%v", err)
	}
	c.Routes = c.Routes[1:]
	if err := c.validate("", false); err != nil {
		t.Error(err)
	}
}

// What is wrong with the flags of a node says what is right.
func TestNodeFlagsHaveHints(t *testing.T) {
	for want, change := range map[string]func(*Cluster){
		"--replicas 3":          func(c *Cluster) { c.Replicas = 4 },
		"--node n1":             func(c *Cluster) { c.Node = "N 1" },
		"--cluster-name ledger": func(c *Cluster) { c.Name = "" },
	} {
		c := Cluster{Name: "c", Node: "n1", Listen: "127.0.0.1:6222", Routes: []string{"127.0.0.1:6223"}}
		change(&c)
		if err := c.validate("", false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// What clients and other nodes are told is refused at once if it is no URL.
func TestExternalHost(t *testing.T) {
	if host, err := externalHost("https://ledger.example:8443/base"); err != nil || host != "ledger.example" {
		t.Errorf("%q, %v", host, err)
	}
	for _, bad := range []string{"foo", "ledger.example:80", "ftp://ledger.example", "https://", "https://ledger.example/?a=b"} {
		if _, err := externalHost(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
		c := Config{Dir: t.TempDir(), ExternalURL: bad, Listen: "0.0.0.0:1", AllowRemote: true}
		if err := c.validate(); err == nil || !strings.Contains(err.Error(), "--external-url https://") {
			t.Errorf("a ledger under %q: %v", bad, err)
		}
	}
}
