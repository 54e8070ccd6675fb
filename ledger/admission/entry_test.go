package admission_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	vectors "counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/admission"
	"counterfoil/ledger/event"
)

func TestADM05_SeedEntriesOfTheOfficialRegistry(t *testing.T) {
	want := []string{
		"io.github.domdomegg/airtable-mcp-server 1.7.2: npm airtable-mcp-server, oci docker.io/domdomegg/airtable-mcp-server:1.7.2, " +
			"mcpb https://github.com/domdomegg/airtable-mcp-server/releases/download/v1.7.2/airtable-mcp-server.mcpb",
		"io.github.domdomegg/airtable-mcp-server 1.7.3: npm airtable-mcp-server, oci docker.io/domdomegg/airtable-mcp-server:1.7.3, " +
			"mcpb https://github.com/domdomegg/airtable-mcp-server/releases/download/v1.7.3/airtable-mcp-server.mcpb",
		"io.github.domdomegg/time-mcp-nuget 1.0.8: nuget TimeMcpServer",
		"io.github.domdomegg/time-mcp-pypi 1.0.6: pypi time-mcp-pypi",
	}
	for i, raw := range seeds(t) {
		d := admission.ParseEntry(raw)
		if d.Refused != nil {
			t.Errorf("%d: %+v", i, d.Refused)
			continue
		}
		var paths []string
		for _, p := range d.Entry.Packages {
			paths = append(paths, p.RegistryType+" "+p.Identifier)
		}
		if got := d.Entry.Name + " " + d.Entry.Version + ": " + strings.Join(paths, ", "); got != want[i] {
			t.Errorf("got  %s\nwant %s", got, want[i])
		}
		if d.Raw.Digest != admission.Digest(raw) || d.Raw.Size != int64(len(raw)) {
			t.Errorf("%d: the raw bytes are not the ones that were read: %+v", i, d.Raw)
		}
		if _, err := admission.NewSnapshot("https://registry.modelcontextprotocol.io", d, admission.Asserted, event.FormatTime(at)); err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if d := admission.ParseEntry(seeds(t)[0]); d.Entry.Packages[2].FileSHA256 != "8220de07a08ebe908f04da139ea03dbfe29758141347e945da60535fb7bcca20" {
		t.Errorf("fileSha256 is lost: %+v", d.Entry.Packages[2])
	}
}

// snakeEntry is an entry of the oldest schema version, which spells its members
// in snake_case.
const snakeEntry = `{"$schema":"https://static.modelcontextprotocol.io/schemas/2025-07-09/server.schema.json",` +
	`"name":"io.github.example/old","description":"An old entry.","version":"0.1.0","website_url":"https://example.org",` +
	`"packages":[{"registry_type":"mcpb","registry_base_url":"https://github.com","identifier":"https://github.com/example/old/releases/old.mcpb",` +
	`"version":"0.1.0","file_sha256":"` + "8220de07a08ebe908f04da139ea03dbfe29758141347e945da60535fb7bcca20" + `","transport":{"type":"stdio"},` +
	`"environment_variables":[{"name":"KEY","is_secret":true}]}]}`

func TestADM05_BothSpellingsGiveTheSameFields(t *testing.T) {
	old := admission.ParseEntry([]byte(snakeEntry))
	if old.Refused != nil {
		t.Fatal(old.Refused)
	}
	for _, version := range admission.SchemaVersions[1:] {
		camel := snakeEntry
		for _, r := range [][2]string{
			{"2025-07-09", version}, {"website_url", "websiteUrl"}, {"registry_type", "registryType"}, {"registry_base_url", "registryBaseUrl"},
			{"file_sha256", "fileSha256"}, {"environment_variables", "environmentVariables"}, {"is_secret", "isSecret"},
		} {
			camel = strings.Replace(camel, r[0], r[1], 1)
		}
		d := admission.ParseEntry([]byte(camel))
		if d.Refused != nil {
			t.Fatalf("%s: %v", version, d.Refused)
		}
		if got, want := d.Entry.Packages[0], old.Entry.Packages[0]; got != want {
			t.Errorf("%s: %+v, want %+v", version, got, want)
		}
		if d.Raw == old.Raw || d.Canonical == old.Canonical {
			t.Error("two entries have one digest")
		}
	}
}

func TestADM05_DigestsDoNotDependOnLayoutOnlyRawDoes(t *testing.T) {
	a := admission.ParseEntry([]byte(sigstoreEntry))
	b := admission.ParseEntry([]byte(strings.ReplaceAll(sigstoreEntry, "\n", "")))
	if a.Raw == b.Raw || a.Canonical != b.Canonical || a.Canonical == "" {
		t.Errorf("%+v\n%+v", a, b)
	}
}

func TestADM05_ResponseMetadataIsDigestedApart(t *testing.T) {
	response := func(status string) string {
		return `{"server":` + sigstoreEntry + `,"_meta":{"io.modelcontextprotocol.registry/official":{"status":"` + status + `","isLatest":true}}}`
	}
	bare, active, gone := admission.ParseEntry([]byte(sigstoreEntry)), admission.ParseEntry([]byte(response("active"))), admission.ParseEntry([]byte(response("deleted")))
	if active.Refused != nil || bare.Response != nil || active.Response == nil || active.Response.Status != "active" || gone.Response.Status != "deleted" {
		t.Fatalf("%+v %+v %+v", bare, active, gone)
	}
	if active.Raw != bare.Raw || active.Canonical != bare.Canonical || gone.Raw != bare.Raw {
		t.Error("mutable metadata changed the entry's digests")
	}
	if active.Response.Digest == gone.Response.Digest {
		t.Error("a change of status is lost")
	}
}

func TestADM11_EntriesThatCannotBeUsedHaveTheirOwnCodes(t *testing.T) {
	replace := func(old, with string) string {
		if !strings.Contains(sigstoreEntry, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(sigstoreEntry, old, with, 1)
	}
	schema := "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
	for _, c := range []struct {
		name, raw string
		code      admission.Code
		words     string // in the detail
	}{
		{"10 MB", sigstoreEntry + strings.Repeat(" ", 10<<20), admission.EntryTooLarge, "limit 1048576"},
		{"no JSON", "name: x", admission.EntryInvalidJSON, "invalid_json"},
		{"nothing", "", admission.EntryInvalidJSON, ""},
		{"cut off", sigstoreEntry[:len(sigstoreEntry)-2], admission.EntryInvalidJSON, ""},
		{"trailing bytes", sigstoreEntry + "{}", admission.EntryInvalidJSON, ""},
		{"invalid UTF-8", replace("A package", "A \xff package"), admission.EntryInvalidJSON, "invalid_utf8"},
		{"byte order mark", "\ufeff" + sigstoreEntry, admission.EntryInvalidJSON, ""},
		{"too deep", replace(`"version": "2.0.0",`, `"version": "2.0.0", "_meta": `+strings.Repeat("[", 100)+strings.Repeat("]", 100)+","), admission.EntryInvalidJSON, "too_deep"},
		{"a number nobody can carry", replace(`"version": "2.0.0",`, `"version": "2.0.0", "_meta": {"n": 9007199254740993},`), admission.EntryInvalidJSON, "integer_too_large"},
		{"name twice", replace(`"name":`, `"name": "io.github.mallory/x", "name":`), admission.EntryDuplicateMember, "name"},
		{"name twice, once in escapes", replace(`"name":`, `"n\u0061me": "io.github.mallory/x", "name":`), admission.EntryDuplicateMember, "name"},
		{"twice deep inside", replace(`"url":`, `"url": "x", "url":`), admission.EntryDuplicateMember, "/repository/url"},
		{"a list", "[" + sigstoreEntry + "]", admission.EntryInvalid, "one entry"},
		{"no schema", replace(`"$schema": "`+schema+`",`, ""), admission.SchemaVersionUnsupported, "2025-12-11"},
		{"unknown schema", replace("2025-12-11", "2026-05-01"), admission.SchemaVersionUnsupported, "2026-05-01"},
		{"draft schema", replace("2025-12-11", "draft"), admission.SchemaVersionUnsupported, "draft"},
		{"schema elsewhere", replace("static.modelcontextprotocol.io", "static.example"), admission.SchemaVersionUnsupported, ""},
		{"snake_case package", replace(`"registryType"`, `"registry_type"`), admission.EntrySnakeCase, "/packages/0/registry_type: this schema version spells it registryType"},
		{"snake_case beside camelCase", replace(`"registryType"`, `"file_sha256": "x", "registryType"`), admission.EntrySnakeCase, "file_sha256"},
		{"snake_case at the top", replace(`"version"`, `"website_url": "x", "version"`), admission.EntrySnakeCase, "/website_url"},
		{"snake_case of a secret", replace(`"transport"`, `"environmentVariables": [{"name": "K", "is_secret": true}], "transport"`), admission.EntrySnakeCase, "/packages/0/environmentVariables/0/is_secret"},
		{"snake_case of a header", replace(`{"type": "stdio"}`, `{"type": "sse", "url": "https://x.example", "headers": [{"name": "K", "is_secret": true}]}`), admission.EntrySnakeCase, "headers/0/is_secret"},
		{"camelCase under the old schema", strings.Replace(snakeEntry, "registry_type", "registryType", 1), admission.EntryInvalid, "/packages/0/registryType"},
		{"no name", replace(`"name": "io.github.sigstore/sigstore",`, ""), admission.EntryInvalid, "/name"},
		{"two slashes in the name", replace("io.github.sigstore/sigstore", "io.github/sigstore/sigstore"), admission.EntryInvalid, "/name"},
		{"no description", replace("A package with real provenance.", ""), admission.EntryInvalid, "/description"},
		{"a range of versions", replace(`"2.0.0"`, `"^2.0.0"`), admission.EntryInvalid, "/version"},
		{"x range", replace(`"2.0.0"`, `"2.x"`), admission.EntryInvalid, "/version"},
		{"latest", replace(`"identifier": "sigstore", "version": "2.0.0"`, `"identifier": "sigstore", "version": "latest"`), admission.EntryInvalid, "/packages/0/version"},
		{"npm without a version", replace(`"identifier": "sigstore", "version": "2.0.0"`, `"identifier": "sigstore"`), admission.EntryInvalid, "/packages/0/version"},
		{"wrong type", replace(`"stdio"`, `1`), admission.EntryInvalid, ""},
		{"unknown transport", replace(`"stdio"`, `"telepathy"`), admission.EntryInvalid, "/packages/0/transport/type"},
		{"bad fileSha256", replace(`"transport"`, `"fileSha256": "ABC", "transport"`), admission.EntryInvalid, "/packages/0/fileSha256"},
		{"remote over stdio", replace(`"packages"`, `"remotes": [{"type": "stdio"}], "packages"`), admission.EntryInvalid, "/remotes/0/type"},
		{"a noncharacter", replace(`"identifier": "sigstore"`, `"identifier": "sig\ufffestore"`), admission.EntryInvalid, ""},
		{"a control character", replace(`"identifier": "sigstore"`, `"identifier": "sig\u0000store"`), admission.EntryInvalid, "/packages/0/identifier"},
		{"65 packages", replace(`"packages": [`, `"packages": [`+strings.Repeat(`{"registryType":"npm","identifier":"x","version":"1.0.0","transport":{"type":"stdio"}},`, 64)), admission.EntryInvalid, "limit 64"},
	} {
		d := admission.ParseEntry([]byte(c.raw))
		if d.Refused == nil || d.Refused.Code != c.code || !strings.Contains(d.Refused.Detail, c.words) || d.Entry != nil {
			t.Errorf("%s: got %+v, want %s with %q", c.name, d.Refused, c.code, c.words)
			continue
		}
		s, err := admission.NewSnapshot("https://registry.example", d, admission.Asserted, event.FormatTime(at))
		if err != nil {
			t.Errorf("%s: cannot be recorded: %v", c.name, err)
			continue
		}
		in := &admission.Input{Class: "light", Snapshot: s, At: at}
		j := admission.Decide(in, shipped(t, "light"))
		wantJudged(t, j, admission.Reject, c.code)
	}
}

// A member that is nobody's spelling of anything may be called as it likes.
func TestADM11_SnakeCaseOfPublishersIsTheirs(t *testing.T) {
	raw := strings.Replace(sigstoreEntry, `"version": "2.0.0",`, `"version": "2.0.0", "_meta": {"io.modelcontextprotocol.registry/publisher-provided": {"registry_type": 1, "x": 0.5}},`, 1)
	if d := admission.ParseEntry([]byte(raw)); d.Refused != nil {
		t.Error(d.Refused)
	}
}

func TestADM21_AnEntryThatCouldNotBeReadIsNotRejected(t *testing.T) {
	in := input(t)
	in.Snapshot, in.SnapshotFailure = nil, &admission.Failure{Code: admission.EntryUnavailable, Detail: "503"}
	p := shipped(t, "privileged")
	j := admission.Decide(in, p)
	wantJudged(t, j, admission.Quarantine, "registry_entry_unavailable")
	s, r, _ := records(t, j, p)
	if s.Snapshot != nil || r.Records.RegistrySnapshot != "" {
		t.Errorf("%+v", r)
	}
}

func TestADM10_SubjectNames(t *testing.T) {
	for _, c := range []struct{ kind, identifier, version, locator, want string }{
		{"npm", "@modelcontextprotocol/server", "1.2.3", "x", "pkg:npm/%40modelcontextprotocol/server@1.2.3"},
		{"npm", "sigstore", "2.0.0", "x", "pkg:npm/sigstore@2.0.0"},
		{"oci", "ghcr.io/owner/repo:v1", "", "x", "ghcr.io/owner/repo"},
		{"oci", "localhost:5000/owner/repo", "", "x", "localhost:5000/owner/repo"},
		{"oci", "localhost:5000/owner/repo:v1@sha256:00", "", "x", "localhost:5000/owner/repo"},
		{"oci", "docker.io/owner/repo:v1", "", "x", "docker.io/owner/repo index.docker.io/owner/repo"},
		{"pypi", "time-mcp-pypi", "1.0.6", "https://files.example/packages/time_mcp_pypi-1.0.6.tar.gz#sha256=00", "time_mcp_pypi-1.0.6.tar.gz"},
		{"mcpb", "https://github.com/x/y/releases/download/v1/y.mcpb", "", "https://github.com/x/y/releases/download/v1/y.mcpb?token=1", "y.mcpb"},
		{"nuget", "TimeMcpServer", "1.0.8", "x", ""},
		{"remote", "https://mcp.example", "", "x", ""},
	} {
		a := &admission.ArtifactBinding{PackageType: c.kind, Identifier: c.identifier, Version: c.version, Locator: c.locator}
		if got := strings.Join(a.SubjectNames(), " "); got != c.want {
			t.Errorf("%s %s: got %q, want %q", c.kind, c.identifier, got, c.want)
		}
	}
}

func FuzzADM05_ParseEntry(f *testing.F) {
	vectors.Add(f, "admission.json")
	for _, raw := range seeds(f) {
		f.Add([]byte(raw))
	}
	f.Add([]byte(snakeEntry))
	f.Add([]byte(`{"server":` + snakeEntry + `,"_meta":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := admission.ParseEntry(b)
		if (d.Entry == nil) == (d.Refused == nil) {
			t.Fatalf("%+v", d)
		}
		s, err := admission.NewSnapshot("file:x", d, admission.Asserted, event.FormatTime(at))
		if err != nil {
			t.Fatalf("what was read cannot be recorded: %v", err)
		}
		canonical, err := admission.Encode(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admission.ParseSnapshot(canonical); err != nil {
			t.Fatalf("%v\n%s", err, canonical)
		}
		if d.Entry != nil && !jsontext.Value(b).IsValid() {
			t.Fatal("an entry of no JSON")
		}
	})
}

func FuzzADM04_Records(f *testing.F) {
	vectors.Add(f, "admission.json", "admission")
	p := shipped(f, "privileged")
	s, r, _ := records(f, admission.Decide(input(f), p), p)
	for _, record := range []admission.Record{s.Snapshot, s.Binding, s.Evidence, s.Decision, r} {
		b, err := admission.Encode(record)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	sealed, err := admission.Seal(r, newSigner(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		check := func(record admission.Record, err error) {
			if err != nil {
				return
			}
			got, err := admission.Encode(record)
			if err != nil || !bytes.Equal(got, b) {
				t.Fatalf("two spellings of one record: %v\n%s\n%s", err, b, got)
			}
		}
		check(parsed(admission.ParseSnapshot(b)))
		check(parsed(admission.ParseBinding(b)))
		check(parsed(admission.ParseEvidenceBundle(b)))
		check(parsed(admission.ParsePolicyDecision(b)))
		check(parsed(admission.ParseReceipt(b)))
		check(parsed(admission.ParseSpanningSet(b)))
		if _, signer, err := admission.Open(b, newSigner(1).keys); err == nil && signer == "" {
			t.Fatal("opened without a signer")
		}
	})
}

func parsed[R admission.Record](r R, err error) (admission.Record, error) { return r, err }

func BenchmarkDecide(b *testing.B) {
	p := shipped(b, "privileged")
	in := input(b)
	for b.Loop() {
		if j := admission.Decide(in, p); j.Decision != admission.Admit {
			b.Fatal(fmt.Sprint(j.ReasonCodes))
		}
	}
}

// BenchmarkRecords is all of an admission but evidence and storage.
func BenchmarkRecords(b *testing.B) {
	p := shipped(b, "privileged")
	in := input(b)
	signer := newSigner(1)
	for b.Loop() {
		j := admission.Decide(in, p)
		_, r, _ := records(b, j, p)
		if _, err := admission.Seal(r, signer); err != nil {
			b.Fatal(err)
		}
	}
}
