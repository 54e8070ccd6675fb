package receipt

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"

	"counterfoil/ledger/event"
	"counterfoil/ledger/trust"
)

// The tests write logs with the public reference implementations of notes and
// trees. Keys come from fixed seeds, so every byte is the same in every run.

const origin = "ledger.example/log"

func seed(label string) []byte {
	s := sha256.Sum256([]byte("receipt test " + label))
	return s[:]
}

func private(label string) ed25519.PrivateKey { return ed25519.NewKeyFromSeed(seed(label)) }

func public(label string) ed25519.PublicKey { return private(label).Public().(ed25519.PublicKey) }

func keyID(label string) string { return event.KeyID(public(label)) }

// world is a log, its keys and its records.
type world struct {
	t       testing.TB
	tree    *testonly.Tree
	records []*event.Record
	signers []string // labels of the keys that sign the next event
	logKey  string
	name    string // origin
}

func newWorld(t testing.TB) *world {
	return &world{t: t, tree: testonly.New(rfc6962.DefaultHasher), signers: []string{"event"}, logKey: "log", name: origin}
}

func newAttempt(ledger string, n int) *event.Event {
	invocation := fmt.Sprintf("invocation-%03d", n)
	e := &event.Event{
		Schema: event.Schema, Ledger: ledger, Tenant: "default", Revision: 1, Lifecycle: event.Attempt,
		Subject: event.Subject{Kind: event.ToolAction, ID: "external_tool_call"}, OccurredAt: "2026-07-28T00:00:00.000Z", CapturedAt: "2026-07-28T00:00:00.120Z",
		Source: event.Source{RuntimeID: "runtime:any", AgentID: "agent:any", InvocationID: invocation, Protocol: "mcp",
			Implementation: "external-agent-runtime", Assurance: event.SelfAsserted},
		TraceID: "trace-001", Action: event.Action{Name: "external_tool_call", EffectKind: "org.example/declared-effect", EffectMode: "one_time"},
		Status:      event.StatusRequested,
		Commitments: map[string]string{"input": "sha256:" + strings.Repeat("ab", 32), "expectedEffect": "sha256:" + strings.Repeat("12", 32)},
		Tags: map[string]string{"request": "hmac-sha256:" + strings.Repeat("cd", 32),
			"expectedEffect": "hmac-sha256:" + strings.Repeat("ee", 32)},
		ClaimBoundary: event.ClaimBoundaryFor(event.Attempt, event.ToolAction),
	}
	var random [15]byte
	binary.BigEndian.PutUint64(random[:], uint64(n))
	e.AttemptID = event.NewAttemptID(event.ScopeOf(e.Tenant, e.Source.RuntimeID, invocation).Shard(), random)
	return e
}

// follow makes the next event of an attempt.
func follow(prev *event.Event, l event.Lifecycle, status string) *event.Event {
	e := *prev
	e.Revision, e.Previous = prev.Revision+1, event.DigestOf(prev.Append(nil)).String()
	e.Lifecycle, e.Status, e.Refs, e.Statement = l, status, nil, nil
	e.Source.EventID = fmt.Sprintf("observation-%d", e.Revision)
	e.Commitments = map[string]string{"result": "sha256:" + strings.Repeat("34", 32)}
	e.Tags = map[string]string{"request": "hmac-sha256:" + strings.Repeat("ce", 32)}
	e.ClaimBoundary = event.ClaimBoundaryFor(l, e.Subject.Kind)
	return &e
}

func outcome(prev *event.Event) *event.Event {
	return follow(prev, event.Outcome, event.StatusSucceeded)
}

// sign makes the record of any bytes, good or not.
func sign(payload []byte, signers ...string) *event.Record {
	rec := &event.Record{EventBytes: payload}
	for _, s := range signers {
		rec.Signatures = append(rec.Signatures, event.Signature{KeyID: keyID(s), Sig: ed25519.Sign(private(s), event.PAE(event.PayloadType, payload))})
	}
	rec.SignatureBytes = event.AppendSignatures(nil, rec.Signatures)
	return rec
}

// log adds an event to the log and returns its leaf index.
func (w *world) log(e *event.Event) uint64 {
	w.t.Helper()
	rec := sign(e.Append(nil), w.signers...)
	var err error
	if rec, err = event.NewRecord(rec.EventBytes, rec.SignatureBytes); err != nil {
		w.t.Fatalf("test event: %v", err)
	}
	return w.logRecord(rec)
}

func (w *world) logRecord(rec *event.Record) uint64 {
	w.tree.AppendData(event.AppendLeaf(nil, rec.EventBytes, rec.SignatureBytes))
	w.records = append(w.records, rec)
	return uint64(len(w.records) - 1)
}

// attempts logs n attempts with an outcome each, two leaves an attempt.
func (w *world) attempts(n int) {
	for range n {
		a := newAttempt(w.name, len(w.records))
		w.log(a)
		w.log(outcome(a))
	}
}

func (w *world) size() uint64 { return w.tree.Size() }

// proof is the inclusion proof of a leaf at a size.
func (w *world) proof(index, size uint64) [][]byte {
	w.t.Helper()
	p, err := w.tree.InclusionProof(index, size)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func noteSigner(t testing.TB, name, label string) note.Signer {
	t.Helper()
	h := sha256.Sum256(append([]byte(name+"\n\x01"), public(label)...))
	s, err := note.NewSigner(fmt.Sprintf("PRIVATE+KEY+%s+%08x+%s", name, binary.BigEndian.Uint32(h[:4]), base64.StdEncoding.EncodeToString(append([]byte{1}, seed(label)...))))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// witness cosigns with a fixed time.
type witness struct {
	key   trust.VerifierKey
	label string
	time  uint64
}

func newWitness(t testing.TB, name string) *witness {
	t.Helper()
	k, err := trust.NewVerifierKey(name, trust.TypeCosignature, public(name))
	if err != nil {
		t.Fatal(err)
	}
	return &witness{key: k, label: name, time: 1785196800}
}

func (w *witness) Name() string    { return w.key.Name }
func (w *witness) KeyHash() uint32 { return w.key.ID }
func (w *witness) Sign(msg []byte) ([]byte, error) {
	sig := binary.BigEndian.AppendUint64(nil, w.time)
	return append(sig, ed25519.Sign(private(w.label), fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", w.time, msg))...), nil
}

// checkpoint is the log's note at a size, cosigned as asked.
func (w *world) checkpoint(size uint64, cosigners ...note.Signer) []byte {
	w.t.Helper()
	c := trust.Checkpoint{Origin: w.name, Size: size}
	copy(c.Root[:], w.tree.HashAt(size))
	return w.signNote(c.Text(), append([]note.Signer{noteSigner(w.t, w.name, w.logKey)}, cosigners...)...)
}

func (w *world) signNote(text string, signers ...note.Signer) []byte {
	w.t.Helper()
	b, err := note.Sign(&note.Note{Text: text}, signers...)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// entries are those of the given leaves at a size; all leaves without any.
func (w *world) entries(size uint64, leaves ...uint64) []Entry {
	w.t.Helper()
	if len(leaves) == 0 {
		for i := range size {
			leaves = append(leaves, i)
		}
	}
	var out []Entry
	for _, i := range leaves {
		out = append(out, Entry{Record: w.records[i], LeafIndex: i, Proof: w.proof(i, size)})
	}
	return out
}

// bundle is the bundle of the given leaves under the newest checkpoint.
func (w *world) bundle(leaves ...uint64) []byte {
	w.t.Helper()
	return w.build(w.entries(w.size(), leaves...), w.checkpoint(w.size()))
}

func (w *world) build(entries []Entry, checkpoint []byte) []byte {
	w.t.Helper()
	b, err := Build(entries, checkpoint)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// trusts is a trust file for the log and the keys, valid from leaf 0.
func (w *world) trusts(keys ...string) *trust.File {
	w.t.Helper()
	var list []trust.EventKey
	for _, k := range keys {
		list = append(list, trust.EventKey{KeyID: keyID(k), PublicKey: public(k)})
	}
	return w.trustsKeys(list...)
}

func (w *world) trustsKeys(list ...trust.EventKey) *trust.File {
	w.t.Helper()
	keys, err := trust.NewEventKeys(list)
	if err != nil {
		w.t.Fatal(err)
	}
	k, err := trust.NewVerifierKey(origin, trust.TypeEd25519, public("log"))
	if err != nil {
		w.t.Fatal(err)
	}
	return &trust.File{Log: k, EventKeys: keys}
}

// replace changes a bundle in one place, which must be there.
func replace(t testing.TB, b []byte, old, replacement string) []byte {
	t.Helper()
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("%q is not in the bundle", old)
	}
	return bytes.Replace(b, []byte(old), []byte(replacement), 1)
}

// wantFailed requires the verdict failed with failures of exactly these checks.
func wantFailed(t *testing.T, what string, r *Report, names ...string) {
	t.Helper()
	if r.Status != Failed || r.ExitCode() != 1 || len(r.Claims) != 0 {
		t.Errorf("%s: status %s, exit code %d, %d claims; want failed, 1, 0", what, r.Status, r.ExitCode(), len(r.Claims))
	}
	var got []string
	for _, c := range r.Checks {
		if c.Status == Fail && !slices.Contains(got, c.Name) {
			got = append(got, c.Name)
		}
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("%s: failed %v, want %v\n%s", what, got, names, text(r))
	}
}

func wantVerified(t *testing.T, what string, r *Report) {
	t.Helper()
	if r.Status != Verified || r.ExitCode() != 0 || len(r.Claims) == 0 || len(r.NotClaimed) == 0 {
		t.Errorf("%s: not verified\n%s", what, text(r))
	}
}

// text is the verdict and the failures.
func text(r *Report) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %+v\n", r.Status, r.Counts)
	for _, c := range r.Checks {
		if c.Status == Fail {
			leaf := "-"
			if c.LeafIndex != nil {
				leaf = fmt.Sprint(*c.LeafIndex)
			}
			fmt.Fprintf(&b, "  %s at %s %s: %s: expected %q, got %q\n", c.Name, leaf, c.EventID, c.Detail, c.Expected, c.Got)
		}
	}
	return b.String()
}

// forge writes a bundle without the checks of Build.
func forge(entries []Entry, checkpoint []byte) []byte {
	codes := map[string]string{}
	var list []byte
	for i := range entries {
		code := entries[i].Record.Event.ClaimBoundary
		codes[code], _ = event.ClaimBoundaryText(code)
		if i > 0 {
			list = append(list, ',')
		}
		list = appendEntry(list, &entries[i], len(checkpoint) > 0)
	}
	return append(append(appendHead(nil, checkpoint, codes), list...), tail...)
}

// forged is the record of any bytes in the place of an event.
func forged(e *event.Event, payload []byte, signers ...string) *event.Record {
	rec := sign(payload, signers...)
	rec.Event = e
	return rec
}

// resign is the record of the same event with other signers.
func resign(rec *event.Record, signers ...string) *event.Record {
	return forged(rec.Event, rec.EventBytes, signers...)
}

func flip(b []byte) []byte {
	out := bytes.Clone(b)
	out[len(out)/2] ^= 1
	return out
}

// swap exchanges two texts that occur once each.
func swap(t testing.TB, b []byte, x, y string) []byte {
	t.Helper()
	b = replace(t, b, x, "\x00")
	b = replace(t, b, y, x)
	return replace(t, b, "\x00", y)
}

// dropBoundary takes a claim boundary out of a bundle.
func dropBoundary(t testing.TB, b []byte, code string) []byte {
	t.Helper()
	text, _ := event.ClaimBoundaryText(code)
	member := string(quote(append(quote(nil, code), ':'), text))
	if bytes.Contains(b, []byte(","+member)) {
		return replace(t, b, ","+member, "")
	}
	return replace(t, b, member, "")
}

// proofText is a proof as a bundle writes it.
func proofText(proof [][]byte) string {
	var parts []string
	for _, h := range proof {
		parts = append(parts, `"`+base64.StdEncoding.EncodeToString(h)+`"`)
	}
	return `"inclusionProof":[` + strings.Join(parts, ",") + `],`
}

func sigText(rec *event.Record) string {
	return base64.StdEncoding.EncodeToString(rec.Signatures[0].Sig)
}
