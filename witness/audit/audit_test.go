package audit_test

import (
	"context"
	"maps"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"counterfoil/ledger/event"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/trust"
	"counterfoil/projections/leaftest"
	"counterfoil/witness/audit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"))
}

func TestLOG11_CleanLogIsVerifiedFromItsTilesAlone(t *testing.T) {
	for _, n := range []int{1, 255, 256, 257, 3000} {
		l := newLog(t).add(story(n)...)
		r := verified(t, l.config())
		if r.Leaves.Folded != uint64(n) || r.Leaves.Counted != uint64(n) || r.Attempts["succeeded"] != uint64(n/2) || r.Tenant != leaftest.Tenant {
			t.Errorf("%d: %s", n, text(r))
		}
	}
}

func TestCLM05_AuditClaimsWitnessesOnlyWhereAskedFor(t *testing.T) {
	l := newLog(t).add(story(10)...)
	r := verified(t, l.config())
	if strings.Contains(strings.Join(r.Claims, " "), "itness") || !strings.Contains(strings.Join(r.NotClaimed, " "), "No witness quorum") {
		t.Errorf("%s", text(r))
	}
	k := newWitness(t, "witness.test/w1")
	ask := func(c *audit.Config) { c.Trust.Witnesses, c.Trust.Quorum = []trust.VerifierKey{k.key}, 1 }
	refused(t, l.config(ask), audit.Quorum)
	k.cosign(t, l, 1_000_000)
	r = verified(t, l.config(ask))
	claims, not := strings.Join(r.Claims, " "), strings.Join(r.NotClaimed, " ")
	if !strings.Contains(claims, "not forked for these witnesses") || !strings.Contains(not, "Truth:") || !strings.Contains(not, "Completeness:") {
		t.Errorf("%s", text(r))
	}
	refused(t, l.config(ask, func(c *audit.Config) { c.MaxAge = 1 }), audit.Stale)
	change(t, l.file(tiles.Path{Kind: tiles.Checkpoint}), func(b []byte) []byte {
		n, err := trust.ParseNote(b)
		if err != nil {
			t.Fatal(err)
		}
		n.Signatures[1].Sig[20] ^= 1
		return n.Append(nil)
	})
	refused(t, l.config(ask), audit.Cosignature, audit.Quorum)
}

// Every history that the generator makes is judged as its plain model says.
func TestLOG11_EveryLeafIsJudgedLikeThePlainModel(t *testing.T) {
	for seed := range uint64(3) {
		leaves := leaftest.History(seed, 1000)
		m := leaftest.Fold(leaves)
		l := newLog(t).add(leaves...)
		found := map[uint64]string{}
		r := run(t, l.config(audit.InBatches(50, nil), func(c *audit.Config) {
			c.Tenant = leaftest.Tenant
			c.Each = func(f audit.Finding) error {
				found[*f.LeafIndex] = string(f.Kind)
				if f.Expected == "" || f.Got == "" || f.Detail == "" {
					t.Errorf("%+v says too little", f)
				}
				return nil
			}
		}))
		if r.Status != audit.NotVerified || !maps.Equal(found, m.Parked) {
			t.Fatalf("seed %d: found %v, the model parks %v", seed, found, m.Parked)
		}
		states, events := map[string]uint64{}, map[event.Lifecycle]uint64{}
		for _, s := range m.Attempts {
			states[s.Summary().State]++
		}
		for _, e := range m.Events {
			events[e.Event.Lifecycle]++
		}
		if !maps.Equal(r.Attempts, states) || !maps.Equal(r.Events, events) || r.Leaves.Counted != uint64(len(m.Events)) {
			t.Errorf("seed %d: %s", seed, text(r))
		}
		if len(r.Findings.Listed) > audit.MaxListed || r.Findings.Total != uint64(len(m.Parked)) {
			t.Errorf("seed %d: %d listed of %d, the model parks %d", seed, len(r.Findings.Listed), r.Findings.Total, len(m.Parked))
		}
		verified(t, l.config(func(c *audit.Config) { c.Tenant, c.AllowParked = leaftest.Tenant, uint64(len(m.Parked)) }))
		if r := run(t, l.config(func(c *audit.Config) { c.Tenant, c.AllowParked = leaftest.Tenant, uint64(len(m.Parked))-1 })); r.ExitCode() != 1 {
			t.Errorf("seed %d: one leaf more than was accepted gives %s", seed, r.Status)
		}
	}
}

func TestLOG11_LeavesThatDoNotCountAreNamed(t *testing.T) {
	first := story(4)
	begin := leaftest.Begin("call-0", nil)
	with := func(extra ...[]byte) *ledgerLog { return newLog(t).add(append(first[:4:4], extra...)...) }
	retired := func(c *audit.Config) {
		k := eventKey(leaftest.Key)
		to := uint64(4)
		k.ToIndex = &to
		keys, err := trust.NewEventKeys([]trust.EventKey{k})
		if err != nil {
			t.Fatal(err)
		}
		c.Trust.EventKeys = keys
	}
	none := func(*audit.Config) {}
	for name, c := range map[string]struct {
		leaf []byte
		with func(*audit.Config)
		kind audit.Kind
		code string
	}{
		"garbage":          {[]byte("garbage \xff"), none, audit.Unparseable, ""},
		"empty":            {nil, none, audit.Unparseable, ""},
		"not canonical":    {append([]byte(" "), first[0]...), none, audit.Unparseable, ""},
		"key of a strange": {leaftest.LeafBy(leaftest.Other, leaftest.Begin("x", nil)), none, audit.BadSignature, "unknown_key"},
		"retired key":      {leaftest.Leaf(leaftest.Begin("x", nil)), retired, audit.BadSignature, "key_retired"},
		"unlawful":         {leaftest.Leaf(leaftest.After(begin, event.Outcome, event.StatusFailed, "again", nil)), none, audit.Unlawful, "chain_broken"},
		"ghost":            {leaftest.Leaf(leaftest.After(leaftest.Begin("ghost", nil), event.Outcome, event.StatusFailed, "e", nil)), none, audit.Unlawful, "attempt_missing"},
		"duplicate":        {first[1], none, audit.DuplicateLeaf, ""},
		"other tenant":     {leaftest.Leaf(leaftest.Begin("x", func(e *event.Event) { e.Tenant = "other" })), none, audit.WrongTenant, ""},
		"other ledger":     {leaftest.Leaf(leaftest.Begin("x", func(e *event.Event) { e.Ledger = "other.example/log" })), none, audit.WrongOrigin, ""},
	} {
		l := with(c.leaf)
		r := refused(t, l.config(c.with), c.kind)
		f := r.Findings.Listed[0]
		if f.LeafIndex == nil || *f.LeafIndex != 4 || f.Code != c.code {
			t.Errorf("%s: %+v", name, f)
		}
		if c.kind != audit.Unparseable && (f.EventID == "" || f.AttemptID == "") {
			t.Errorf("%s: %+v names no event", name, f)
		}
		verified(t, l.config(c.with, func(c *audit.Config) { c.AllowParked = 1 }))
	}
}

func TestWrongLogKeyIsNotVerified(t *testing.T) {
	l, other := newLog(t).add(story(10)...), newLog(t)
	refused(t, l.config(func(c *audit.Config) { c.Trust = other.trust() }), audit.LogSignature)
}

func TestWhatCannotBeJudged(t *testing.T) {
	empty := newLog(t).add()
	l := newLog(t).add(story(10)...)
	for name, cfg := range map[string]audit.Config{
		"no trust file": l.config(func(c *audit.Config) { c.Trust = nil }),
		"empty log":     empty.config(),
		"no checkpoint": l.config(func(c *audit.Config) { c.Source = tiles.Dir(t.TempDir()) }),
		"from beyond":   l.config(func(c *audit.Config) { c.From = 11 }),
		"policy":        l.config(func(c *audit.Config) { c.Policy = &trust.Policy{Quorum: "x"} }),
	} {
		r, err := audit.Run(context.Background(), cfg)
		if err == nil || r.ExitCode() != 2 || r.Error == "" || len(r.NotClaimed) == 0 {
			t.Errorf("%s: %v %s", name, err, text(r))
		}
	}
}

func TestFromALeafOnJudgesWhatCanBeJudged(t *testing.T) {
	var leaves [][]byte
	open := leaftest.Begin("early", nil)
	leaves = append(leaves, leaftest.Leaf(open))
	leaves = append(leaves, story(600)...)
	o := leaftest.After(open, event.Outcome, event.StatusSucceeded, "observed", nil)
	leaves = append(leaves, leaftest.Leaf(o), leaftest.Leaf(leaftest.After(o, event.Review, "upheld", "r", leaftest.Refers("reviews", o))))
	l := newLog(t).add(leaves...)
	r := run(t, l.config(func(c *audit.Config) { c.From = 301 }))
	if r.Leaves.From != 301 || r.Leaves.NotJudged != 2 || r.Leaves.Counted != 300 || r.Status != audit.Verified {
		t.Errorf("%s", text(r))
	}
	if !strings.Contains(strings.Join(r.Claims, " "), "began before leaf 301") {
		t.Errorf("%s", text(r))
	}
}

func BenchmarkAudit(b *testing.B) {
	const n = 20_000
	l := newLog(b).add(story(n)...)
	for b.Loop() {
		verified(b, l.config())
	}
	b.ReportMetric(float64(b.N)*n/b.Elapsed().Seconds(), "leaves/s")
}
