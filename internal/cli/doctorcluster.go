package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"counterfoil/ledger/client"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
)

// clusterReport is what doctor --cluster finds out (schemaVersion
// counterfoil.cluster-report.v1). Trees are compared by the tiles that each node
// serves, not by what a node says of itself.
type clusterReport struct {
	SchemaVersion string               `json:"schemaVersion"`
	OK            bool                 `json:"ok"`
	Origin        string               `json:"origin"`
	Cluster       string               `json:"cluster"`
	Signer        string               `json:"signer"`
	Epoch         uint64               `json:"epoch"`
	CommonSize    uint64               `json:"commonSize"` // largest size that all nodes that answer have published
	Nodes         []nodeReport         `json:"nodes"`
	Node          string               `json:"node"`     // that answered
	Replicas      int                  `json:"replicas"` // nodes that there should be
	Members       []string             `json:"members"`  // servers that vote
	Stream        client.ClusterStream `json:"stream"`
	Problems      []clusterProblem     `json:"problems"`
}

type nodeReport struct {
	Name          string `json:"name"`
	URL           string `json:"url"`
	Away          bool   `json:"away"`
	LogSize       uint64 `json:"logSize"`
	PublishedSize uint64 `json:"publishedSize"` // of the checkpoint that it serves
	WitnessedSize uint64 `json:"witnessedSize"`
	// ReportAgeSeconds is how old LogSize, WitnessedSize and StreamLag are.
	ReportAgeSeconds float64 `json:"reportAgeSeconds"`
	StreamLag        uint64  `json:"streamLag"` // messages of the stream that are not in its log
	RootAtCommon     string  `json:"rootAtCommon"`
	Error            string  `json:"error,omitempty"`

	reader *tiles.Reader
}

type clusterProblem struct {
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

const (
	clusterSchema = "counterfoil.cluster-report.v1"
	// nodeTimeout bounds what one node may take to show its tree.
	nodeTimeout = 10 * time.Second
)

func (c *cli) doctorCluster(ctx context.Context) error {
	cl, err := c.connect(false)
	if err != nil {
		return err
	}
	defer cl.Close()
	a, err := cl.Cluster(ctx)
	if err != nil {
		return err
	}
	raw, err := cl.Trust(ctx)
	if err != nil {
		return err
	}
	file, err := trust.Parse(raw)
	if err != nil {
		return fmt.Errorf("the ledger's trust file: %w", err)
	}
	r := examineCluster(ctx, &a.Value, file)
	if c.json {
		err = c.printJSON(r)
	} else {
		err = c.showCluster(r)
	}
	if err == nil && !r.OK {
		err = exitCode(exitFailed)
	}
	return err
}

// examineCluster reads the checkpoint of every node and the root of each tree at
// the largest size that all of them have.
func examineCluster(ctx context.Context, cl *client.Cluster, file *trust.File) *clusterReport {
	r := &clusterReport{SchemaVersion: clusterSchema, Origin: file.Log.Name, Cluster: cl.Name, Signer: cl.Signer, Epoch: cl.Epoch, Node: cl.Node, Replicas: cl.Replicas, Members: cl.Members, Stream: cl.Stream, Problems: []clusterProblem{}}
	last := uint64(0)
	for _, n := range cl.Nodes {
		last = max(last, n.StreamLast)
	}
	r.Nodes = make([]nodeReport, len(cl.Nodes))
	var asking sync.WaitGroup
	for i, n := range cl.Nodes {
		x := &r.Nodes[i]
		*x = nodeReport{Name: n.Name, URL: n.URL, Away: n.Away, ReportAgeSeconds: n.SilentSeconds, LogSize: n.LogSize, WitnessedSize: n.WitnessedSize, StreamLag: last - min(last, n.LogSize)}
		asking.Go(func() { x.readCheckpoint(ctx, file) })
	}
	asking.Wait()
	first := true
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Error == "" && (first || n.PublishedSize < r.CommonSize) {
			r.CommonSize, first = n.PublishedSize, false
		}
	}
	for i := range r.Nodes {
		if n := &r.Nodes[i]; n.Error == "" {
			asking.Go(func() { n.readRoot(ctx, r.CommonSize) })
		}
	}
	asking.Wait()
	r.judge()
	return r
}

func (n *nodeReport) readCheckpoint(ctx context.Context, file *trust.File) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	if err := n.open(ctx, file); err != nil {
		n.Error = err.Error()
	}
}

func (n *nodeReport) open(ctx context.Context, file *trust.File) error {
	if n.URL == "" {
		return errors.New("it has not said where it answers")
	}
	src, err := tiles.HTTP(strings.TrimSuffix(n.URL, "/")+"/log/", tiles.HTTPConfig{Client: http.DefaultClient, Attempts: 2, Timeout: nodeTimeout})
	if err != nil {
		return err
	}
	raw, _, err := src.Read(ctx, tiles.Path{Kind: tiles.Checkpoint})
	if err != nil {
		return err
	}
	note, err := trust.ParseNote(raw)
	if err != nil {
		return fmt.Errorf("its checkpoint: %w", err)
	}
	if v, err := note.VerifyBy(file.Log); err != nil || v.Lines == 0 {
		return errors.Join(errors.New("its checkpoint is not signed by the log's key"), err)
	}
	cp, err := trust.ParseCheckpoint(note.Text)
	if err != nil {
		return fmt.Errorf("its checkpoint: %w", err)
	}
	n.PublishedSize, n.reader = cp.Size, tiles.NewReader(src, tiles.Options{})
	root, err := n.reader.Root(ctx, cp.Size)
	if err != nil {
		return err
	}
	if root != cp.Root {
		return fmt.Errorf("its tiles have root %x at size %d, its checkpoint %x", root, cp.Size, cp.Root)
	}
	return nil
}

func (n *nodeReport) readRoot(ctx context.Context, size uint64) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	edge, err := n.reader.Range(ctx, 0, size, n.PublishedSize)
	if err != nil {
		n.Error = err.Error()
		return
	}
	n.RootAtCommon = fmt.Sprintf("%x", tiles.EdgeRoot(edge))
}

// reportLimit is how old a report may be to be shown beside what was asked now.
const reportLimit = 10.0 // seconds

// reported is a figure of the node's last report, "-" if that is too old to tell.
func (n *nodeReport) reported(figure uint64) string {
	if n.ReportAgeSeconds > reportLimit {
		return "-"
	}
	return utoa(figure)
}

const clusterRunbook = "see docs/runbooks/cluster.md"

func (r *clusterReport) judge() {
	problem := func(hint, format string, args ...any) {
		r.Problems = append(r.Problems, clusterProblem{fmt.Sprintf(format, args...), hint})
	}
	if r.Signer == "" {
		problem("wait some seconds; a node takes over when it has every leaf. "+clusterRunbook, "no node signs: nothing is published")
	}
	var roots []string
	for _, n := range r.Nodes {
		switch {
		case n.URL == "":
			problem("wait until it has started", "node %s: %s", n.Name, n.Error)
		case n.Error != "":
			problem("is it running, and does this machine reach "+n.URL+"?", "node %s: %s", n.Name, n.Error)
		case n.Away && r.Stream.Leader != "": // and yet it showed its tree; reports travel by the stream
			problem("it runs: mend the network between the nodes", "node %s answers, and its reports do not reach the others", n.Name)
		}
		if n.RootAtCommon != "" && !slices.Contains(roots, n.RootAtCommon) {
			roots = append(roots, n.RootAtCommon)
		}
	}
	if len(roots) > 1 {
		problem("stop all nodes and keep their directories. "+clusterRunbook, "the trees differ at size %d: %s", r.CommonSize, strings.Join(roots, ", "))
	}
	if n := len(r.Members); r.Replicas > 0 && n > r.Replicas {
		problem("counterfoil node remove "+r.tooMany(), "%d members of %d replicas (%s): %d must be there, so that one node down may stop all",
			n, r.Replicas, strings.Join(r.Members, ", "), n/2+1)
	}
	if r.Stream.Leader == "" {
		problem("most nodes must run and reach each other", "the stream takes nothing: %s", cmp.Or(r.Stream.Trouble, "it has no leader"))
	}
	for _, s := range r.Stream.Replicas {
		if s.Offline {
			problem("start it, or mend the network between the nodes", "the stream's copy on %s is away", s.Server)
		}
	}
	r.OK = len(r.Problems) == 0
}

// tooMany is the one member that keeps no copy of the stream, NAME if that is not
// clear.
func (r *clusterReport) tooMany() string {
	without := slices.DeleteFunc(slices.Clone(r.Members), func(m string) bool {
		return slices.ContainsFunc(r.Stream.Replicas, func(s client.StreamReplica) bool { return s.Server == m })
	})
	if len(without) != 1 {
		return "NAME"
	}
	return without[0]
}

func (c *cli) showCluster(r *clusterReport) error {
	state := "all nodes agree"
	if !r.OK {
		state = "not well"
	}
	signer := r.Signer
	if signer == "" {
		signer = "nobody"
	}
	leader := r.Stream.Leader
	if leader == "" {
		leader = "none"
	}
	if err := pairs(c.env.Stdout, "origin", r.Origin, "cluster", r.Cluster, "signs", fmt.Sprintf("%s, epoch %d", signer, r.Epoch),
		"stream leader", leader, "state", state); err != nil {
		return err
	}
	rows := [][]string{{"node", "report", "log", "stream lag", "published", "witnessed", fmt.Sprintf("root at size %d", r.CommonSize), "at"}}
	for _, n := range r.Nodes {
		root := n.RootAtCommon
		if len(root) > 16 {
			root = root[:16] + "…"
		}
		if n.Error != "" {
			root = "unknown"
		}
		published := utoa(n.PublishedSize)
		if n.reader == nil {
			published = "-" // it was not seen
		}
		rows = append(rows, []string{n.Name, fmt.Sprintf("%.0f s ago", n.ReportAgeSeconds), n.reported(n.LogSize), n.reported(n.StreamLag), published, n.reported(n.WitnessedSize), root, n.URL})
	}
	if _, err := fmt.Fprintln(c.env.Stdout); err != nil {
		return err
	}
	if err := table(c.env.Stdout, rows); err != nil {
		return err
	}
	for _, p := range r.Problems {
		if _, err := fmt.Fprintf(c.env.Stdout, "\n%s\n  next: %s\n", plain(p.Message), p.Hint); err != nil {
			return err
		}
	}
	return nil
}
