package policy_test

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/admission/policy"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// minimal is the smallest policy; what stands in angle brackets is replaced by
// tests.
const minimal = `schema: counterfoil.policy.v1
id: small
version: "1"
retention:
  kept-30d: {kind: security_evidence, days: 30}
classes:
  low:
    impact: low
    minimum:
      namespace: [registry_asserted]
      bindings: [bytes]
      attestations: none
    quarantine: {calls: refuse, reviewWithinHours: 72}
    retention: kept-30d
`

// with adds text to the smallest policy.
func with(text string) string { return minimal + text }

// change replaces text of the smallest policy.
func change(t testing.TB, old, text string) string {
	t.Helper()
	if !strings.Contains(minimal, old) {
		t.Fatalf("no %q", old)
	}
	return strings.Replace(minimal, old, text, 1)
}

func load(t testing.TB, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func shippedFile(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "policies", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestADM28_ADM29_ShippedPoliciesAndTheirTables(t *testing.T) {
	for _, name := range []string{"light", "standard", "privileged"} {
		b := shippedFile(t, name+".yaml")
		if problems := policy.Lint(b, now); len(problems) > 0 {
			t.Errorf("%s: %v", name, problems)
		}
		p := load(t, string(b))
		table, problems := policy.ParseTable(shippedFile(t, name+"_test.yaml"))
		if table == nil || len(problems) > 0 || table.Policy != name+".yaml" {
			t.Fatalf("%s: %v", name, problems)
		}
		results := table.Run(p)
		if len(results) < 9 {
			t.Errorf("%s: %d cases", name, len(results))
		}
		for _, r := range results {
			if !r.OK {
				t.Errorf("%s:%d: %s: %v", name, r.Line, r.Name, r.Differences)
			}
		}
		// A table that passes against every policy proves nothing.
		if other := table.Run(load(t, change(t, "  low:", "  "+name+":"))); !slices.ContainsFunc(other, func(r policy.CaseResult) bool { return !r.OK }) {
			t.Errorf("%s: the table passes against a policy without rules", name)
		}
	}
}

func TestADM28_SmallestPolicy(t *testing.T) {
	p := load(t, minimal)
	c := p.Class("low")
	if c == nil || c.Impact != admission.ImpactLow || c.Quarantine.ReviewWithin != 72*time.Hour || c.Retention != "kept-30d" || len(c.Attestations) != 0 {
		t.Errorf("%+v", c)
	}
	if p.Class("high") != nil || !slices.Equal(p.Classes(), []string{"low"}) {
		t.Error(p.Classes())
	}
	if r := p.Review(); r.PrivilegedEvidenceFail != "retire" || r.StandardAs != admission.ImpactLow {
		t.Errorf("%+v", r)
	}
	if r, ok := p.Retention("kept-30d"); !ok || r.Days != 30 || r.Kind != policy.SecurityEvidence {
		t.Errorf("%+v", r)
	}
}

func TestADM08_DigestIsOfWhatIsSaidNotOfLayout(t *testing.T) {
	p := load(t, minimal)
	same := "# a comment\n" + strings.NewReplacer(
		`version: "1"`, `version: '1'`,
		"kept-30d: {kind: security_evidence, days: 30}", "kept-30d:\n    days: 30\n    kind: security_evidence",
		"[bytes]", "\n        - bytes",
	).Replace(minimal)
	if same == minimal {
		t.Fatal("nothing changed")
	}
	if got := load(t, same).Ref(); got != p.Ref() {
		t.Errorf("layout changed the digest: %v %v", got, p.Ref())
	}
	for _, r := range [][2]string{
		{"days: 30", "days: 31"}, {"id: small", "id: other"}, {`"1"`, `"2"`}, {"[registry_asserted]", "[registry_asserted, dns]"},
		{"reviewWithinHours: 72", "reviewWithinHours: 72, retries: 0"}, // a default that is written out is another document
	} {
		if load(t, change(t, r[0], r[1])).Ref().Digest == p.Ref().Digest {
			t.Errorf("%v does not change the digest", r)
		}
	}
	if got := admission.Digest(p.Canonical()); got != p.Ref().Digest {
		t.Errorf("%s is not the digest of the canonical form", p.Ref().Digest)
	}
	if p.Ref().Digest != load(t, minimal).Ref().Digest {
		t.Error("two digests of one document")
	}
}

func verdictOf(t *testing.T, text string, f *admission.Facts) admission.Verdict {
	t.Helper()
	v := load(t, with(rules+text)).Rules("low", f)
	if len(v) != 1 {
		t.Fatal(v)
	}
	return v[0]
}

// A rule that costs too much, or that breaks, is an error and never a pass;
// also not when the other side of an || would be true.
func TestADM10_RulesThatCannotBeEvaluatedNeverPass(t *testing.T) {
	many := admission.EmptyFacts()
	for range admission.MaxFindings {
		many.Attestations = append(many.Attestations, admission.FactAttestation{Issuer: strings.Repeat("x", 200)})
	}
	dear := "attestations.all(a, attestations.all(b, attestations.all(c, a.issuer + b.issuer + c.issuer != '')))"
	v := verdictOf(t, "  - {id: dear, classes: [low], require: \""+dear+"\"}\n", many)
	if v.Result != admission.ResultError || !slices.Equal(v.Codes, []admission.Code{admission.PolicyCostExceeded}) {
		t.Errorf("%+v", v)
	}
	v = verdictOf(t, "  - {id: dear, classes: [low], require: \""+dear+"\"}\n", admission.EmptyFacts())
	if v.Result != admission.ResultPass {
		t.Errorf("the same on little: %+v", v)
	}
	v = verdictOf(t, "  - {id: dear, classes: [low], when: \""+dear+"\", require: 'server.name != \"\"'}\n", many)
	if v.Result != admission.ResultError {
		t.Errorf("in when: %+v", v)
	}
	for _, require := range []string{"attestations[0].issuer == ''", "checks['nothing'] == 'pass'", "int(server.name) > 0", "artifact.size / 0 == 1"} {
		v = verdictOf(t, "  - {id: r, classes: [low], require: \""+require+"\"}\n", admission.EmptyFacts())
		if v.Result != admission.ResultError || !slices.Equal(v.Codes, []admission.Code{admission.PolicyRuleError}) {
			t.Errorf("%s: %+v", require, v)
		}
	}
}

func TestADM10_RulesInFixedOrderWithAVerdictEach(t *testing.T) {
	text := with(rules + `  - {id: c, classes: [low], require: 'server.name == "z"', code: mcp_name_mismatch}
  - {id: a, classes: [low], when: 'server.name == "q"', require: 'server.name == "z"'}
  - {id: b, classes: [low], require: 'server.name == "y"', says: not y}
  - {id: d, classes: [all], require: 'server.name == ""'}
`)
	f := admission.EmptyFacts()
	want := []admission.Verdict{
		{Gate: admission.GatePolicy, ID: "rule:c", Result: admission.ResultFail, Codes: []admission.Code{admission.MCPNameMismatch}, Detail: `does not hold: server.name == "z"`},
		{Gate: admission.GatePolicy, ID: "rule:a", Result: admission.ResultNotApplicable},
		{Gate: admission.GatePolicy, ID: "rule:b", Result: admission.ResultFail, Codes: []admission.Code{admission.PolicyRuleFailed}, Detail: "not y"},
		{Gate: admission.GatePolicy, ID: "rule:d", Result: admission.ResultPass},
	}
	for range 3 {
		if got := load(t, text).Rules("low", f); !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	}
}

// Every fact can be asked for, and is there even when nothing is known.
func TestADM10_EveryFactIsThere(t *testing.T) {
	for _, e := range []string{
		"class.name == '' && class.impact == ''",
		"server.name + server.namespace + server.version + server.schemaVersion + server.registry + server.status + server.repository == ''",
		"auth.method + auth.result == ''",
		"artifact.kind + artifact.packageType + artifact.identifier + artifact.version + artifact.transport + artifact.locator == ''",
		"artifact.sha256 + artifact.sha512 + artifact.mediaType + artifact.toolContract + artifact.tlsKey == '' && artifact.size == 0",
		"size(attestations) == 0 && attestations.all(a, a.state + a.code + a.predicateType + a.keyId + a.issuer + a.identity == '' && !a.used)",
		"attestations.all(a, a.sourceRepository + a.sourceRef + a.runner + a.builderId + a.buildType + a.sourceUri == '' && a.signedAt < now)",
		"checks['mcp_name'] == 'absent' && checks['tool_contract'] == 'absent' && size(checks) == 9",
		"!previous.known && previous.version == '' && !previous.hadProvenance",
		"now < timestamp('2000-01-01T00:00:00Z')",
	} {
		if v := verdictOf(t, "  - {id: r, classes: [low], require: \""+e+"\"}\n", admission.EmptyFacts()); v.Result != admission.ResultPass {
			t.Errorf("%s: %+v", e, v)
		}
	}
}

func TestADM10_ExemptionsEndAndAreForOneServer(t *testing.T) {
	p := load(t, string(shippedFile(t, "standard.yaml")))
	end := time.Date(2027, 3, 31, 0, 0, 0, 0, time.UTC)
	const server, class, what = "io.github.example/old-server", "standard", "rule:entry-is-active"
	if e := p.Exempt(server, class, what, end.Add(-time.Nanosecond)); e == nil || e.ID != "example-sunset" {
		t.Errorf("before its end: %+v", e)
	}
	for name, e := range map[string]*admission.Exemption{
		"at its end":     p.Exempt(server, class, what, end),
		"other server":   p.Exempt(server+"2", class, what, now),
		"other class":    p.Exempt(server, "standard-remote", what, now),
		"something else": p.Exempt(server, class, "rule:nothing-tampered", now),
		"nothing":        p.Exempt(server, class, "", now),
	} {
		if e != nil {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestADM13_Signers(t *testing.T) {
	accepts := func(subject string, s *admission.Signer, repository string) bool {
		d := load(t, withSigner(subject)).Class("high").Attestations[0]
		e := &admission.Entry{}
		if repository != "" {
			e.Repository = &admission.Repository{URL: repository}
		}
		return d.Signers[0].Accepts(s, e)
	}
	by := func(change func(*admission.Signer)) *admission.Signer {
		s := &admission.Signer{
			Issuer: "https://issuer.example", Identity: "https://github.com/a/b/w.yml@refs/heads/main",
			SourceRepository: "https://github.com/a/b", SourceRepositoryRef: "refs/heads/main", RunnerEnvironment: "github-hosted",
		}
		if change != nil {
			change(s)
		}
		return s
	}
	const subject = "subject: https://github.com/a/b/w.yml@refs/heads/main"
	const pattern = `subjectPattern: '^https://github\.com/a/[a-z]+/w\.yml@refs/heads/main$'`
	for _, c := range []struct {
		name, match, repository string
		signer                  *admission.Signer
		want                    bool
	}{
		{"exact", subject, "", by(nil), true},
		{"pattern", pattern, "", by(nil), true},
		{"pattern, all of it", pattern, "", by(func(s *admission.Signer) { s.Identity += "/../x" }), false},
		{"pattern, line ends", pattern, "", by(func(s *admission.Signer) { s.Identity += "\n" }), false},
		{"pattern, from the start", pattern, "", by(func(s *admission.Signer) { s.Identity = "x" + s.Identity }), false},
		{"other issuer", subject, "", by(func(s *admission.Signer) { s.Issuer = "https://issuer.example.evil" }), false},
		{"no issuer", subject, "", by(func(s *admission.Signer) { s.Issuer = "" }), false},
		{"a key of that name", subject, "", &admission.Signer{KeyID: "https://github.com/a/b/w.yml@refs/heads/main"}, false},
		{"key and certificate", subject, "", by(func(s *admission.Signer) { s.KeyID = "k" }), false},
		{"nobody", subject, "", nil, false},
		{"runner", subject + ", runner: github-hosted", "", by(nil), true},
		{"other runner", subject + ", runner: github-hosted", "", by(func(s *admission.Signer) { s.RunnerEnvironment = "self-hosted" }), false},
		{"repository", subject + ", sourceRepository: 'https://github.com/a/b'", "", by(nil), true},
		{"other repository", subject + ", sourceRepository: 'https://github.com/a/b'", "", by(func(s *admission.Signer) { s.SourceRepository += "c" }), false},
		{"ref", subject + ", refPattern: '^refs/(heads/main|tags/v[0-9.]+)$'", "", by(nil), true},
		{"other ref", subject + ", refPattern: '^refs/(heads/main|tags/v[0-9.]+)$'", "", by(func(s *admission.Signer) { s.SourceRepositoryRef = "refs/pull/1" }), false},
		{"the entry's", pattern + ", repositoryOfEntry: true", "https://github.com/a/b", by(nil), true},
		{"the entry's, with .git", pattern + ", repositoryOfEntry: true", "git+https://GitHub.com/a/b.git", by(nil), true},
		{"the entry's, with a slash", pattern + ", repositoryOfEntry: true", "https://github.com/a/b/", by(nil), true},
		{"not the entry's", pattern + ", repositoryOfEntry: true", "https://github.com/a/c", by(nil), false},
		{"the entry has none", pattern + ", repositoryOfEntry: true", "", by(nil), false},
		{"neither has one", pattern + ", repositoryOfEntry: true", "x", by(func(s *admission.Signer) { s.SourceRepository = "" }), false},
	} {
		if got := accepts(c.match, c.signer, c.repository); got != c.want {
			t.Errorf("%s: accepted is %v", c.name, got)
		}
	}
	keys := strings.Replace(withSigner("subject: x"), `issuer: "https://issuer.example", subject: x`, `keyIds: ["SHA256:a", "SHA256:b"]`, 1)
	s := load(t, keys).Class("high").Attestations[0].Signers[0]
	if !s.Accepts(&admission.Signer{KeyID: "SHA256:b"}, nil) || s.Accepts(&admission.Signer{KeyID: "SHA256:c"}, nil) || s.Accepts(&admission.Signer{}, nil) || s.Accepts(nil, nil) {
		t.Error("keys")
	}
}

func FuzzADM28_Policy(f *testing.F) {
	for _, name := range []string{"light.yaml", "standard.yaml", "privileged.yaml", "light_test.yaml"} {
		f.Add(string(shippedFile(f, name)))
	}
	f.Add(minimal)
	f.Add(withSigner(`subjectPattern: '^a[^/]+$'`))
	f.Fuzz(func(t *testing.T, text string) {
		problems := policy.Lint([]byte(text), now)
		p, err := policy.Load([]byte(text))
		if (err != nil) != policy.HasErrors(problems) {
			t.Fatalf("load says %v, lint %v", err, problems)
		}
		policy.ParseTable([]byte(text))
		if p == nil {
			return
		}
		if admission.Digest(p.Canonical()) != p.Ref().Digest {
			t.Fatal("digest")
		}
		for _, c := range p.Classes() {
			for _, v := range p.Rules(c, admission.EmptyFacts()) {
				if v.Result == admission.ResultError && len(v.Codes) == 0 {
					t.Fatalf("%+v", v)
				}
			}
		}
	})
}
