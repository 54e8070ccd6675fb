package arch

import (
	"regexp"
	"strings"
	"testing"
)

// readsBytes is an exported function that makes something of bytes or a text.
var readsBytes = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?\w+\) )?((?:Parse|Decode|Unmarshal|Load|Read)\w*)\(\w+ (?:\[\]byte|string|io\.Reader)\b`)

// fuzzBody finds fuzz targets and what is in them.
var fuzzBody = regexp.MustCompile(`(?ms)^func Fuzz\w+\(\w+ \*testing\.F\) \{.*?^\}`)

// notFuzzed are parsers without a target of their own, each with the reason.
var notFuzzed = map[string]string{
	// Of one word or number, with a regular expression or a fixed length: their tests
	// have every length and every kind of character.
	"ledger/admission.ParseCode": "one word of a closed list", "ledger/admission.ParseDecision": "one word of three",
	"ledger/review.ParseCause": "two words", "ledger/event.ParseEventID": "a fixed prefix and 64 hex digits",
	"ledger/event.ParseDigest": "a fixed prefix and 64 hex digits", "ledger/event.ParseTime": "24 characters",
	"ledger/commit.ParseDigest": "a fixed prefix and 64 hex digits", "ledger/commit.ParseTag": "a fixed prefix and 64 hex digits",
	// Names of files of the operator's; what is in the files has a target.
	"ledger/keyring.ReadSeed": "a file of 32 bytes", "ledger/keyring.LoadRegistry": "reads a file for ParseRegistry",
	"witness/server.LoadKey": "a file of one line of the operator's", "witness/state.ReadEvidence": "reads files for ParseEvidence",
	// Through the function that calls them.
	"ledger/admission.ParseReceipt": "FuzzADM04_Records", "ledger/admission.ParseBinding": "FuzzADM04_Records",
	"ledger/admission.ParseEvidenceBundle": "FuzzADM04_Records", "ledger/admission.ParseSnapshot": "FuzzADM04_Records",
	"ledger/admission.ParsePolicyDecision": "FuzzADM04_Records", "ledger/admission.ParseSpanningSet": "FuzzADM04_Records",
	"ledger/admission/evidence/sigstore.ParsePublicKey": "crypto/x509, and a switch over its types",
	"ledger/admission/evidence/sigstore.ParsePEMKey":    "encoding/pem, then ParsePublicKey",
	"ledger/trust.ParseCheckpoint":                      "FuzzParseNote",
	"internal/jsonrpc.Parse":                            "FuzzParseAll",
	"internal/proxy/state.Load":                         "documents of this program's own",
	"internal/durable.ReadFile":                         "bytes as they are",
	"ledger/event.Parse":                                "FuzzParseRecord",
	"internal/rpc.Unmarshal":                            "protojson's, behind the bound of a message",
}

// Whatever reads bytes of others has a fuzz target that calls it.
func TestEveryParserHasAFuzzTarget(t *testing.T) {
	parsers, called := map[string]bool{}, map[string]string{} // by package and name; by package, the text of targets
	eachText(t, func(file, text string) {
		i := strings.LastIndexByte(file, '/')
		if !strings.HasSuffix(file, ".go") || i < 0 || strings.HasPrefix(file, "proto/") || strings.HasPrefix(file, "internal/testkit/") || strings.HasPrefix(file, "internal/ci/") ||
			strings.HasPrefix(file, "internal/arch/") || strings.HasPrefix(file, "internal/interop/") || strings.Contains(file, "/leaftest/") {
			return
		}
		dir := file[:i]
		if strings.HasSuffix(file, "_test.go") {
			for _, body := range fuzzBody.FindAllString(text, -1) {
				called[dir] += body
			}
			return
		}
		for _, m := range readsBytes.FindAllStringSubmatch(text, -1) {
			if m[1] != "Read" && m[1] != "ReadAt" { // of io.Reader and io.ReaderAt
				parsers[dir+"."+m[1]] = true
			}
		}
	})
	if len(parsers) < 20 {
		t.Fatalf("only %d parsers found", len(parsers))
	}
	for name := range parsers {
		i := strings.LastIndexByte(name, '.')
		if !regexp.MustCompile(`\b`+name[i+1:]+`\(`).MatchString(called[name[:i]]) && notFuzzed[name] == "" {
			t.Errorf("%s has no fuzz target in its package that calls it, and no reason in notFuzzed", name)
		}
	}
	for name := range notFuzzed {
		if !parsers[name] {
			t.Errorf("notFuzzed has %s, which is no parser any more", name)
		}
	}
}
