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
