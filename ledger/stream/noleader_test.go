package stream

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A server that is alone answers for a stream whose leader nobody knows, with what it
// has itself; on one that was just emptied that is nothing. It is not taken for the
// stream's end (INV-2).
func TestCluster_AServerWithoutALeaderIsNotBelieved(t *testing.T) {
	t.Parallel()
	c := newTrio(t)
	mustPublish(t, c.s[0], 7, "leaf", 0)
	rows, err := c.s[0].Rows(t.Context(), "ROWS")
	must(t, err)
	if _, _, err := rows.Publish(t.Context(), []byte("row"), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the one that stays has all", func() bool {
		got, err := c.s[0].ClusterState(t.Context())
		return err == nil && got.Whole()
	})
	for _, s := range c.s[1:] {
		closeStream(t, s)
	}
	// It led itself, perhaps; it gives that up when it hears of nobody.
	for _, name := range []string{c.s[0].cfg.Name, rows.stream} {
		until(t, "the one that stays knows no leader of "+name, func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var info clusterInfo
			err := c.s[0].api(ctx, "STREAM.INFO."+name, nil, &info)
			return err == nil && info.Cluster != nil && info.Cluster.Leader == ""
		})
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if st, err := c.s[0].State(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("state: %+v %v", st, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if last, err := rows.Last(ctx); !errors.Is(err, ErrUnavailable) {
		t.Errorf("end of the rows: %d %v", last, err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if last, err := c.s[0].Newest(ctx, "counterfoil.v1.*.*.*.*"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("newest: %d %v", last, err)
	}
}
