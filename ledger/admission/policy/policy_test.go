package policy_test

import (
	"errors"
	"fmt"
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

const signedClass = `
  high:
    impact: privileged
    minimum:
      namespace: [dns]
      bindings: [bytes]
      attestations:
        - id: build
          predicateTypes: ["https://slsa.dev/provenance/v1"]
          signers: [{issuer: "https://issuer.example", SUBJECT}]
    quarantine: {calls: refuse, reviewWithinHours: 24}
    retention: kept-30d
`

func withSigner(subject string) string {
	return strings.Replace(minimal, "classes:\n", "classes:"+strings.Replace(signedClass, "SUBJECT", subject, 1), 1)
}

const rules = "rules:\n"

// Every check of the linter, with the line and column that it names.
func TestADM28_ARC07_Lint(t *testing.T) {
	rule := func(fields string) string { return with(rules + "  - {id: r, classes: [low], " + fields + "}\n") }
	exempt := func(server, waive, expires string) string {
		return with(rules + "  - {id: r, classes: [low], require: 'server.name != \"\"'}\n" +
			"exemptions:\n  - {id: e, server: " + server + ", class: low, waive: ['" + waive + "'], reason: r, approvedBy: a, expires: '" + expires + "'}\n")
	}
	for _, c := range []struct {
		name, text string
		severity   policy.Severity
		code       string
		line       int
		words      string
	}{
		{"no minimum", change(t, "    minimum:\n      namespace: [registry_asserted]\n      bindings: [bytes]\n      attestations: none\n", ""), "error", "class-without-minimum", 7, "low"},
		{"no quarantine", change(t, "    quarantine: {calls: refuse, reviewWithinHours: 72}\n", ""), "error", "class-without-quarantine", 7, "low"},
		{"empty attestations", change(t, "attestations: none", "attestations: []"), "error", "class-without-minimum", 12, "empty list"},
		{"attestations unsaid", change(t, "      attestations: none\n", ""), "error", "missing", 10, "is missing"},
		{"attestations: some", change(t, "attestations: none", "attestations: some"), "error", "type", 12, "none or a list"},
		{"nothing accepted", change(t, "bindings: [bytes]", "bindings: []"), "error", "class-without-minimum", 11, ""},
		{"no retention", change(t, "    retention: kept-30d\n", ""), "error", "missing", 8, "is missing"},
		{"unknown retention", change(t, "    retention: kept-30d\n", "    retention: kept\n"), "error", "unknown", 7, "kept"},
		{"unused retention", change(t, "retention:\n", "retention:\n  other-1d: {kind: security_evidence, days: 1}\n"), "warning", "unused", 5, ""},
		{"privileged without attestation", change(t, "impact: low", "impact: privileged"), "error", "class-without-minimum", 7, "privileged"},
		{"privileged as telemetry", strings.Replace(withSigner("subject: x"), "kind: security_evidence", "kind: discovery_telemetry", 1), "error", "telemetry-retention", 7, "discovery_telemetry"},
		{"secrets as telemetry", strings.Replace(change(t, "    impact: low", "    impact: low\n    readsSecrets: true"), "kind: security_evidence", "kind: discovery_telemetry", 1), "error", "telemetry-retention", 7, ""},
		{"privileged, report only", strings.Replace(withSigner("subject: x"), "{calls: refuse, reviewWithinHours: 24}", "{calls: report_only, reviewWithinHours: 24}", 1), "error", "value", 7, "refuse"},
		{"privileged, nothing pinned", strings.Replace(withSigner("subject: x"), "bindings: [bytes]\n      attestations:\n", "bindings: [bytes, not_byte_pinnable]\n      attestations:\n", 1), "warning", "not-pinned", 7, ""},
		{"attestation about no bytes", strings.Replace(withSigner("subject: x"), "bindings: [bytes]\n      attestations:\n", "bindings: [bytes, pinned_deployment]\n      attestations:\n", 1), "warning", "unreachable-binding", 7, ""},

		{"unanchored", withSigner(`subjectPattern: 'https://github\.com/example/.+'`), "error", "unanchored-pattern", 15, "longer name"},
		{"anchored at one end", withSigner(`subjectPattern: '^https://github\.com/example/x'`), "error", "unanchored-pattern", 15, ""},
		{"anchored in one alternative", withSigner(`subjectPattern: '^a$|b'`), "error", "unanchored-pattern", 15, ""},
		{"anchored by lines", withSigner(`subjectPattern: '(?m)^a$'`), "error", "unanchored-pattern", 15, ""},
		{"anything", withSigner(`subjectPattern: '.*'`), "error", "unanchored-pattern", 15, ""},
		{"anything, anchored", withSigner(`subjectPattern: '^.*$'`), "error", "open-pattern", 15, "any text"},
		{"anything within", withSigner(`subjectPattern: '^https://github\.com/.*/release\.yml$'`), "error", "open-pattern", 15, ""},
		{"anything in a group", withSigner(`subjectPattern: '^https://github\.com/(a|.+)$'`), "error", "open-pattern", 15, ""},
		{"anything as a class", withSigner(`subjectPattern: '^https://github\.com/[\s\S]*$'`), "error", "open-pattern", 15, ""},
		{"anything as repetition", withSigner(`subjectPattern: '^https://github\.com/.{0,100}$'`), "error", "open-pattern", 15, ""},
		{"all but a letter", withSigner(`subjectPattern: '^https://github\.com/[^x]+$'`), "error", "open-pattern", 15, ""},
		{"a dot that is any character", withSigner(`subjectPattern: '^https://github.com/example$'`), "warning", "loose-dot", 15, ""},
		{"a broken pattern", withSigner(`subjectPattern: '^(a$'`), "error", "pattern", 15, ""},
		{"a ref that is anything", withSigner(`subject: x, refPattern: '^refs/.*$'`), "error", "open-pattern", 15, ""},
		{"no subject", withSigner("repositoryOfEntry: true"), "error", "signer", 15, "subject"},
		{"two subjects", withSigner("subject: x, subjectPattern: '^x$'"), "error", "signer", 15, ""},
		{"key and certificate", withSigner("subject: x, keyIds: [k]"), "error", "signer", 15, ""},
		{"no issuer", strings.Replace(withSigner("subject: x"), `issuer: "https://issuer.example", `, "", 1), "error", "signer", 15, "is missing"},
		{"no signer", strings.Replace(withSigner("subject: x"), `[{issuer: "https://issuer.example", subject: x}]`, "[]", 1), "error", "missing", 15, "anybody"},
		{"a predicate type that is no URI", strings.Replace(withSigner("subject: x"), "https://slsa.dev/provenance/v1", "provenance", 1), "error", "value", 14, "URI"},

		{"a rule for no class", with(rules + "  - {id: r, classes: [nobody], require: 'true'}\n"), "error", "unknown", 16, "nobody"},
		{"a rule that is never asked", rule("when: 'class.impact == \"privileged\"', require: 'server.name != \"\"'"), "error", "unreachable-rule", 16, "never true"},
		{"a rule that is never asked, hidden", rule("when: 'class.name == \"high\" && attestations.size() > 0', require: 'server.name != \"\"'"), "error", "unreachable-rule", 16, ""},
		{"a rule that is false", rule("when: 'false', require: 'server.name != \"\"'"), "error", "unreachable-rule", 16, ""},
		{"a rule that says nothing", rule("require: '1 + 1 == 2'"), "error", "empty-rule", 16, "always true"},
		{"the same again", with(rules + "  - {id: a, classes: [all], require: 'server.name != \"\"'}\n  - {id: b, classes: [low], require: 'server.name != \"\"'}\n"), "error", "unreachable-rule", 17, "rule a"},
		{"one id twice", with(rules + "  - {id: a, classes: [low], require: 'server.name != \"\"'}\n  - {id: a, classes: [low], require: 'server.version != \"\"'}\n"), "error", "duplicate", 17, ""},
		{"a misspelled fact", rule("require: 'server.nmae != \"\"'"), "error", "rule", 16, "nmae"},
		{"an unknown variable", rule("require: 'package.name != \"\"'"), "error", "rule", 16, ""},
		{"no bool", rule("require: 'server.name'"), "error", "rule", 16, "want bool"},
		{"no expression", rule("require: 'server.name ='"), "error", "rule", 16, ""},
		{"an unguarded index", rule("require: 'attestations[0].issuer != \"\"'"), "warning", "fragile-rule", 16, ""},
		{"a code of what went well", rule("require: 'server.name != \"\"', code: attestation_policy_pass"), "error", "value", 16, "no reason code"},
		{"a code that is not registered", rule("require: 'server.name != \"\"', code: bad_luck"), "error", "value", 16, ""},

		{"expired", exempt("io.github.example/x", "rule:r", "2026-11-30T12:00:00.000Z"), "warning", "expired-exemption", 18, "2026-11-30"},
		{"for ever", exempt("io.github.example/x", "rule:r", "2036-11-30T12:00:00.000Z"), "warning", "long-exemption", 18, ""},
		{"for everybody", exempt("'io.github.example/*'", "rule:r", "2027-01-01T00:00:00.000Z"), "error", "value", 18, "one server"},
		{"from nothing", exempt("io.github.example/x", "rule:s", "2027-01-01T00:00:00.000Z"), "error", "unreachable-exemption", 18, ""},
		{"from the minimum", exempt("io.github.example/x", "attestation:build", "2027-01-01T00:00:00.000Z"), "error", "value", 18, "cannot be waived"},
		{"a time without milliseconds", exempt("io.github.example/x", "rule:r", "2027-01-01T00:00:00Z"), "error", "value", 18, ""},

		{"an unknown member", with("colour: blue\n"), "error", "unknown", 15, "/colour"},
		{"an unknown member of a class", change(t, "    impact: low", "    impact: low\n    risk: none"), "error", "unknown", 9, "/classes/low/risk"},
		{"a member twice", with("id: other\n"), "error", "duplicate", 15, "line 2"},
		{"a class twice", change(t, "classes:\n", "classes:\n  low: {impact: low}\n"), "error", "duplicate", 8, "line 7"},
		{"an anchor", change(t, "bindings: [bytes]", "bindings: &b [bytes]"), "error", "alias", 11, ""},
		{"an alias", change(t, "bindings: [bytes]", "bindings: *b"), "error", "syntax", 0, ""},
		{"a merge key", change(t, "    impact: low", "    <<: {impact: low}"), "error", "alias", 8, ""},
		{"a tag", change(t, `"1"`, `!!str 1`), "error", "tag", 3, ""},
		{"an unquoted version", change(t, `"1"`, `1`), "error", "type", 3, "want text"},
		{"an unquoted date", change(t, `"1"`, `2026-11-30`), "error", "type", 3, "quote it"},
		{"a float", change(t, "days: 30", "days: 30.5"), "error", "type", 5, ""},
		{"an octal", change(t, "days: 30", "days: 0o36"), "error", "type", 5, ""},
		{"nothing at all", change(t, "id: small", "id:"), "error", "type", 2, "empty"},
		{"too many days", change(t, "days: 30", "days: 99999"), "error", "value", 5, ""},
		{"two documents", with("---\nid: x\n"), "error", "syntax", 15, "second document"},
		{"a tab", change(t, "  low:", "\tlow:"), "error", "syntax", 7, ""},
		{"another schema", change(t, "policy.v1", "policy.v2"), "error", "schema", 1, "counterfoil.policy.v1"},
		{"too deep", change(t, "bindings: [bytes]", "bindings: "+strings.Repeat("[", 30)+strings.Repeat("]", 30)), "error", "too-deep", 11, ""},
		{"far too deep", strings.Repeat("[", 100_000), "error", "too-deep", 1, ""},
		{"too large", minimal + strings.Repeat("#", policy.MaxDocumentBytes), "error", "too-large", 0, "limit"},
		{"no text", "\xff", "error", "syntax", 0, "UTF-8"},
		{"empty", "", "error", "syntax", 0, "empty"},
		{"a comment", "# nothing\n", "error", "syntax", 0, "empty"},
		{"a noncharacter", change(t, "id: small", `id: small`+"\ndescription: \"\\uFFFE\""), "error", "text", 1, ""},
	} {
		problems := policy.Lint([]byte(c.text), now)
		i := slices.IndexFunc(problems, func(p policy.Problem) bool { return p.Code == c.code && (c.line == 0 || p.Line == c.line) })
		if i < 0 {
			t.Errorf("%s: want %s at line %d, got %v", c.name, c.code, c.line, problems)
			continue
		}
		p := problems[i]
		if p.Severity != c.severity || !strings.Contains(p.Path+" "+p.Message+" "+p.Hint, c.words) {
			t.Errorf("%s: got %v", c.name, p)
		}
		_, err := policy.Load([]byte(c.text))
		if (err != nil) != policy.HasErrors(problems) {
			t.Errorf("%s: load says %v, lint %v", c.name, err, problems)
		}
		var refused *policy.Refused
		if err != nil && !errors.As(err, &refused) {
			t.Errorf("%s: %T", c.name, err)
		}
	}
}

func TestADM28_PatternsThatAreGood(t *testing.T) {
	for _, pattern := range []string{
		`^https://github\.com/example/[^/]+/\.github/workflows/release\.ya?ml@refs/tags/v[0-9.]+$`,
		`^(a|b)$`, `^(?i)https://github\.com/example/x$`, `(^a$)`, `^[a-z]{1,39}$`, `^a\.b$`, `^x/[A-Za-z0-9_.-]*$`,
	} {
		if problems := policy.Lint([]byte(withSigner("subjectPattern: '"+pattern+"'")), now); len(problems) > 0 {
			t.Errorf("%s: %v", pattern, problems)
		}
	}
}

// What the linter finds it finds at once, in the order of the document.
func TestADM28_LintReportsEverything(t *testing.T) {
	text := strings.Replace(change(t, "impact: low", "impact: enormous"), "days: 30", "days: 0", 1) + "colour: blue\n"
	problems := policy.Lint([]byte(text), now)
	var codes []string
	for _, p := range problems {
		codes = append(codes, fmt.Sprintf("%d %s", p.Line, p.Code))
	}
	if want := []string{"5 value", "8 value", "15 unknown"}; !slices.Equal(codes, want) {
		t.Errorf("got %v, want %v", codes, want)
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

func TestADM28_TablesThatCannotBeRead(t *testing.T) {
	good := string(shippedFile(t, "light_test.yaml"))
	for _, r := range [][3]string{
		{"decision: admit", "decision: allow", "want one of admit"},
		{"reasonCodes: [namespace_unverified]", "reasonCodes: [no_luck]", "no reason code"},
		{"policy: light.yaml", "policy: ../light.yaml", "beside this one"},
		{"  - name: namespace and digest are enough", "  - title: x", "unknown member"},
		{"counterfoil.policy-test.v1", "counterfoil.policy-test.v2", "want counterfoil.policy-test.v1"},
		{"checks: {mcp_name: absent}", "checks: {mcp_nmae: absent}", "want one of"},
		{"- name: a remote server without TLS", "- name: a remote server that is pinned", "there already"},
		{"{method: dns, result: fail}", "{method: oidc, result: pass}", "asserted"},
	} {
		text := strings.Replace(good, r[0], r[1], 1)
		if text == good {
			t.Fatalf("no %q", r[0])
		}
		table, problems := policy.ParseTable([]byte(text))
		if table != nil || !slices.ContainsFunc(problems, func(p policy.Problem) bool { return strings.Contains(p.Message, r[2]) && p.Line > 0 }) {
			t.Errorf("%s: %v", r[1], problems)
		}
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
