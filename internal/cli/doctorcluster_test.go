package cli

import (
	"bytes"
	"strings"
	"testing"

	"counterfoil/ledger/client"
	"counterfoil/ledger/trust"
)

func clusterOf(members ...string) *client.Cluster {
	return &client.Cluster{Name: "test", Node: "n2", Signer: "n1", Replicas: 3, Members: members,
		Nodes: []client.Node{
			{Name: "n1", StreamLast: 7, LogSize: 7, SilentSeconds: 1},
			{Name: "n2", Away: true, StreamLast: 123456, LogSize: 123456, SilentSeconds: 11},
		},
		Stream: client.ClusterStream{Leader: "n1", Replicas: []client.StreamReplica{{Server: "n1"}, {Server: "n2"}, {Server: "n3"}}},
	}
}

func shownCluster(t *testing.T, cl *client.Cluster) string {
	t.Helper()
	var out bytes.Buffer
	c := &cli{env: Env{Program: "counterfoil", Stdout: &out}}
	if err := c.showCluster(examineCluster(t.Context(), cl, &trust.File{})); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// One member more than copies of the stream is a danger that has a name and a next step.
func TestDoctorNamesTheMemberTooMany(t *testing.T) {
	got := shownCluster(t, clusterOf("n1", "n2", "n3", "slip"))
	for _, want := range []string{"4 members of 3 replicas (n1, n2, n3, slip): 3 must be there, so that one node down may stop all", "next: counterfoil node remove slip"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := shownCluster(t, clusterOf("n1", "n2", "n3")); strings.Contains(got, "members of") {
		t.Errorf("three members are fine:\n%s", got)
	}
}

// Figures of an old report are not shown beside what was asked now, and the node that
// answers is not called silent.
func TestDoctorHidesOldReports(t *testing.T) {
	cl := clusterOf("n1", "n2", "n3")
	got := shownCluster(t, cl)
	if strings.Contains(got, "123456") || !strings.Contains(got, "11 s ago") {
		t.Errorf("an old report is shown:\n%s", got)
	}
	// Nobody is told to start what answers.
	r := &clusterReport{Signer: "n1", Stream: client.ClusterStream{Leader: "n1"}, Nodes: []nodeReport{{Name: "n2", URL: "http://n2", Away: true}}}
	r.judge()
	if len(r.Problems) != 1 || strings.Contains(r.Problems[0].Hint, "start") || !strings.Contains(r.Problems[0].Message, "n2 answers") {
		t.Errorf("of a node that answers: %+v", r.Problems)
	}
	// Where the stream has no leader no report travels, and that alone is said.
	r.Stream, r.Problems = client.ClusterStream{Trouble: "no leader answers"}, nil
	r.judge()
	if len(r.Problems) != 1 || r.Problems[0].Message != "the stream takes nothing: no leader answers" {
		t.Errorf("without a leader: %+v", r.Problems)
	}
}
