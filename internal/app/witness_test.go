package app_test

import (
	"net/http"
	"testing"

	"counterfoil/ledger/receipt"
)

// From the event to the receipt that says witnessed, with two witnesses.
func TestLOG07_LOG11_CLM05_WaitForWitnesses(t *testing.T) {
	h := newHome(t)
	a, b := newWitness(t, "witness.example/a", h.log), newWitness(t, "witness.example/b", h.log)
	l := h.start(t, 2, a, b)
	r := l.want(http.StatusCreated, "POST", "/v1/attempts?wait=witnessed", beginBody("inv", `1`))
	if text(r, "stage") != "witnessed" || at(r, "witnesses.have") != 2.0 || at(r, "witnesses.need") != 2.0 {
		t.Fatalf("%v", r)
	}
	if text(r, "checkpoint") == "" {
		t.Errorf("no checkpoint: %v", r)
	}
	rep := l.verified(l.get("/v1/attempts/" + text(r, "attemptId") + "/bundle"))
	j, err := rep.JSON()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", j)
	_ = receipt.Options{}
	n := l.witnessed(1, a, b)
	if len(n.Signatures) != 3 || n.Signatures[0].Name != h.log.Name {
		t.Errorf("signatures: %v", n.Signatures)
	}
}
