package cli

import (
	"net/http"
	"strings"
	"testing"
)

// A newcomer's list is of calls; what the ledger and its operator did is one flag
// away, and said to be there. JSON is what the ledger sent.
func TestListIsOfCalls(t *testing.T) {
	row := func(id, kind string) string {
		return `{"attemptId":"` + id + `","state":"succeeded","subject":{"kind":"` + kind + `","id":"s"},"tool":"t","agentId":"a","occurredAt":"2026-07-28T00:00:00.000Z","firstIndex":1,"lastIndex":1}`
	}
	doc := `{"treeSize":9,"attempts":[` + row("att_1", "tool_action") + `,` + row("att_2", "contract") + `,` + row("att_3", "key") + `,` + row("att_4", "ledger") + `,` + row("att_5", "admission") + `]}`
	e := newExecution(t, func(w http.ResponseWriter, _ *http.Request) { answer(w, 200, doc) })
	for args, hidden := range map[string]bool{"": true, "--limit 5": true, "--all": false, "--tool t": false, "--state succeeded": false, "--agent a": false} {
		r := e.run(append([]string{"list"}, strings.Fields(args)...)...)
		for id, always := range map[string]bool{"att_1": true, "att_5": true, "att_2": false, "att_3": false, "att_4": false} {
			if got, want := strings.Contains(r.out, id), always || !hidden; r.code != 0 || got != want {
				t.Errorf("list %s: %s is shown: %t\n%s", args, id, got, r.out)
			}
		}
		if strings.Contains(r.errOut, "hint: 3 of this page are") != hidden {
			t.Errorf("list %s: %s", args, r.errOut)
		}
	}
	if r := e.run("list", "--json"); r.out != doc+"\n" || strings.Contains(r.errOut, "hint") {
		t.Errorf("list --json: %s %s", r.out, r.errOut)
	}
}
