package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"counterfoil/ledger/admission/policy"
)

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
