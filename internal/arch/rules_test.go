package arch

// This module's packages are named without the module, "ledger/event", all others
// by their full path. "ledger/..." is a package and everything below it. A package
// that does not exist yet breaks no rule.

// pure is the floor on which everything stands: no I/O, no clock, no randomness,
// no goroutine and no log, so that it can be fuzzed, embedded anywhere, and
// trusted by a verifier. A pure package imports pure packages, the modules below
// and the standard library without impureStd.
var pure = []string{
	"ledger/admission",
	"ledger/canon",
	"ledger/commit",
	"ledger/event",
	"ledger/excerpt",
	"ledger/lifecycle",
	"ledger/receipt",
	"ledger/review/rubric",
	"ledger/toolresult",
	"ledger/trust",
	"witness/rule",
}

// pureModules are what pure packages may import from elsewhere.
var pureModules = []why{
	{"github.com/go-json-experiment/json/...", "strict JSON that refuses duplicate names and keeps numbers as they are written"},
	{"github.com/transparency-dev/merkle/...", "RFC 6962 hashing and proofs"},
	{"golang.org/x/mod/sumdb/note", "signed notes"},
	{"filippo.io/mldsa", "ML-DSA-44 cosignatures, which the standard library does not verify yet"},
}

// impureStd is what pure packages must not import from the standard library.
var impureStd = []why{
	{"os/...", "files and environment"},
	{"io/fs", "files"},
	{"io/ioutil", "files"},
	{"path/filepath", "files"},
	{"syscall", "the operating system"},
	{"net/...", "the network"},
	{"database/...", "storage"},
	{"log/...", "a pure function returns what it has to say"},
	{"math/rand/...", "randomness enters through parameters"},
	{"crypto/rand", "randomness enters through parameters"},
	{"plugin", "loads code"},
}

// impureTime are the functions of package time that read or wait for the clock.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}

// why is a thing and the reason why it stands in its list.
type why struct{ what, reason string }

// exclusive names who alone may import something, in code and in tests.
type exclusive struct {
	what   string   // import path or tree
	by     []string // packages or trees
	tests  []string // whose tests may too
	reason string
}

var exclusives = []exclusive{
	{
		what: "github.com/nats-io/...", by: []string{"ledger/stream", "ledger/consumer/natsfeed", "internal/testkit/..."},
		// The tests of the whole program are its external consumers.
		tests:  []string{"internal/faults"},
		reason: "one package writes to the stream, so that its configuration is asserted and its subjects are bounded in one place; one reads it as strangers do",
	},
	{
		what: "github.com/transparency-dev/tessera/...", by: []string{"ledger/tlog", "internal/testkit/...", "internal/bench/..."},
		tests:  []string{"witness/server"}, // a log and a witness client that others wrote
		reason: "one package appends to the log, in order and through the guard",
	},
	{
		what: "github.com/dgraph-io/badger/...", by: []string{"ledger/vault", "ledger/index", "projections/kv", "witness/audit",
			"internal/badgerdir"}, // for all of them, before they open
		reason: "each store has one owner",
	},
	{
		what: "connectrpc.com/connect/...", by: []string{"internal/rpc/...", "internal/cli/...", "proto/..."},
		reason: "RPC is a surface; nothing behind it knows about it",
	},
	{
		what: "github.com/modelcontextprotocol/...", by: []string{"internal/mcp"}, tests: []string{"..."},
		reason: "the protocol library is a surface; the proxy passes bytes on, which a library that parses them would change",
	},
	{
		what: "github.com/spf13/...", by: []string{"internal/cli/...", "cmd/..."},
		reason: "the command line is a surface",
	},
	{
		what: "github.com/prometheus/...", by: []string{"internal/telemetry/...", "internal/api/..."},
		reason: "packages count through small interfaces or functions, and metrics are declared in one place",
	},
	{
		what: "go.opentelemetry.io/...", by: []string{"internal/telemetry/trace"}, tests: []string{"internal/app"},
		reason: "spans are made in one place, which sees to it that no private value enters one",
	},
	{
		what: "cel.dev/...", by: []string{"ledger/admission/policy"},
		reason: "the language of a policy's rules has one reader, which bounds what a rule may cost",
	},
	{
		what: "go.yaml.in/...", by: []string{"ledger/admission/policy"},
		reason: "the one format in YAML is read strictly in one place",
	},
	{
		what: "github.com/sigstore/...", by: []string{"ledger/admission/evidence/sigstore"}, tests: []string{"..."},
		reason: "what others signed is judged in one place, with one version of the judge in the decision",
	},
	{
		what: "github.com/google/go-containerregistry/...", by: []string{"ledger/admission/evidence/oci"}, tests: []string{"internal/admit"},
		reason: "one package speaks to container registries, within the bounds of fetch",
	},
	{
		what: "internal/testkit/...", tests: []string{"..."},
		reason: "tools of tests stay out of what is shipped",
	},
	{
		what: "projections/leaftest/...", tests: []string{"..."},
		reason: "tools of tests stay out of what is shipped",
	},
}

// barrier says that no package of from reaches one of to, however long the way.
// Tests are free to: a test may look at both sides of a wall.
type barrier struct {
	from, to []string
	reason   string
}

var barriers = []barrier{
	{
		from: []string{"ledger/..."}, to: []string{"projections/...", "witness/..."},
		reason: "the write side needs neither what reads the log nor what watches it",
	},
	{
		from: []string{"ledger/consumer/..."}, to: []string{"ledger/stream", "ledger/tlog", "ledger/sequencer", "ledger/intake", "ledger/index", "ledger/vault", "ledger/keyring"},
		reason: "a consumer has nothing but what the log shows to everyone, so that it believes no more than a stranger",
	},
	{
		from: []string{"ledger/review/..."}, to: []string{"ledger/admission/evidence/...", "ledger/keyring", "ledger/intake", "ledger/stream"},
		reason: "a review composes what verifiers say and parses no evidence (REV-02); the ledger is behind an interface",
	},
	{
		from: []string{"ledger/...", "projections/...", "witness/..."}, to: []string{"internal/telemetry/..."},
		reason: "what does the work tells of it through small functions; who measures is the wiring's affair",
	},
	{
		from: []string{"ledger/..."}, to: []string{"internal/api/...", "internal/cli/...", "internal/app/...", "cmd/..."},
		reason: "surfaces and wiring stand on the ledger, not under it",
	},
	{
		from: []string{"ledger/admission/..."}, to: []string{"ledger/stream", "ledger/tlog", "ledger/sequencer", "ledger/intake", "ledger/index", "ledger/vault", "ledger/keyring"},
		reason: "evidence is read and judged without the ledger that keeps what came of it",
	},
	{
		from: []string{"cmd/counterfoil-verify", "cmd/counterfoil-witness", "witness/...", "projections/..."}, to: []string{"ledger/admission/evidence/..."},
		reason: "verifiers of supply chains are large; programs that must stay small and views that are rebuilt anywhere do without",
	},
	{
		from: []string{"internal/app", "internal/api", "internal/mcp", "ledger/intake", "ledger/archive"}, to: []string{"ledger/admission/evidence/...", "internal/admit"},
		reason: "a ledger asks nobody about an MCP server; who admits resolves and verifies in a process of its own",
	},
	{
		from: []string{"projections/..."}, to: []string{"ledger/stream", "ledger/tlog", "ledger/sequencer", "ledger/intake", "witness/..."},
		reason: "views are derived from the tiles alone, so that they can be rebuilt anywhere",
	},
	{
		from: []string{"projections/..."}, to: []string{"ledger/vault", "ledger/keyring"},
		reason: "a view holds no private value and signs nothing",
	},
	{
		from: []string{"witness/..."}, to: []string{"projections/...", "ledger/stream", "ledger/tlog", "ledger/sequencer", "ledger/intake", "ledger/vault", "ledger/index"},
		reason: "a witness shares no storage and no code path with the log that it watches",
	},
	{
		from: []string{"ledger/lease"}, to: []string{"ledger/stream", "ledger/tlog", "ledger/sequencer", "ledger/intake", "ledger/index", "ledger/vault", "ledger/keyring", "github.com/nats-io/..."},
		reason: "who signs is decided over a register behind an interface, so that its rules are tested against every answer that one may give",
	},
	{
		from: []string{"ledger/tlog/fetch"}, to: []string{"ledger/stream", "ledger/tlog", "ledger/keyring", "ledger/vault", "ledger/index"},
		reason: "what proves the bytes of others has a size, a root and tiles, and nothing that could lend them credit",
	},
	{
		from: []string{"ledger/tiles"}, to: []string{"ledger/stream", "ledger/tlog", "ledger/keyring", "ledger/vault"},
		reason: "reading and proving needs the tiles and nothing else",
	},
	{
		from: []string{"ledger/...", "projections/...", "witness/..."}, to: []string{"proto/..."},
		reason: "what is hashed comes from our own codec; protobuf is a surface",
	},
}

// verifier is the program of which a stranger is asked to believe least: nothing
// but its input and the trust file. It reaches the pure floor, these packages and
// pureModules.
var verifier = struct {
	main     string
	packages []string
	never    []why // standard library, in the whole binary
}{
	main:     "cmd/counterfoil-verify",
	packages: []string{"cmd/counterfoil-verify", "internal/verifycmd"},
	never: []why{
		{"net/...", "verification needs no network"},
		{"os/exec", "it starts no program"},
		{"plugin", "it loads no code"},
		{"database/...", "it has no storage"},
	},
}
