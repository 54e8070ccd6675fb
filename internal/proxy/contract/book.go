// Package contract watches what a server says about its tools: it compares the
// digest of each definition (package toolcontract) with the one recorded before,
// and records what is new or changed.
package contract

import (
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"counterfoil/internal/proxy/record"
	"counterfoil/internal/proxy/state"
	"counterfoil/internal/toolcontract"
)

// Reasons of contract events.
const (
	reasonChanged = "contract_changed"
	reasonSet     = "tool_set_changed"
)

// known is what is remembered of a tool, listed or not.
type known struct {
	toolcontract.Digests
	// InList is the definition in the last whole list, "" if it was not there.
	InList string `json:"inList"`
}

// page is what is remembered of a server.
type page struct {
	FormatVersion int              `json:"formatVersion"`
	List          string           `json:"list"` // digest of the last whole list, "" before the first
	Tools         map[string]known `json:"tools"`
}

// Book remembers the contracts of one server across restarts. It is safe for
// concurrent use.
type Book struct {
	state *state.Dir
	lane  *record.Lane
	log   *slog.Logger

	// Under mu: what was seen last. On the disk is what is recorded, so that
	// nothing counts as known before the log has it.
	mu   sync.Mutex
	seen page
}

const document = "contracts"

// Open reads what was recorded before.
func Open(dir *state.Dir, rec *record.Recorder, log *slog.Logger) (*Book, error) {
	b := &Book{state: dir, lane: rec.Lane(), log: log, seen: page{FormatVersion: 1}}
	if _, err := dir.Load(document, &b.seen); err != nil {
		return nil, err
	}
	if b.seen.FormatVersion != 1 {
		return nil, fmt.Errorf("%s.json has format version %d, expected 1", document, b.seen.FormatVersion)
	}
	if b.seen.Tools == nil {
		b.seen.Tools = map[string]known{}
	}
	return b, nil
}

// Observation is a list of tools, or a page of one, as a server answered it.
type Observation struct {
	Peers   record.Peers
	Server  string // name of the server without its version
	TraceID string
	Tools   []toolcontract.Tool
	Whole   bool // these are all tools
	At      time.Time
}

// Observe compares a list with what was seen before and records what is new or
// changed. What was seen already is not recorded again. It does not wait for the
// ledger.
func (b *Book) Observe(o Observation) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var order []string
	byName := map[string][][]byte{}
	for _, t := range o.Tools {
		if byName[t.Name] == nil {
			order = append(order, t.Name)
		}
		byName[t.Name] = append(byName[t.Name], t.Raw)
	}
	var defs []record.Definition
	for _, name := range order {
		if d, ok := b.tool(&o, name, byName[name]); ok {
			defs = append(defs, d)
		}
	}
	if o.Whole {
		if d, ok := b.list(&o, byName); ok {
			defs = append(defs, d)
		}
	}
	if len(defs) == 0 {
		return
	}
	recorded := page{FormatVersion: 1, List: b.seen.List, Tools: maps.Clone(b.seen.Tools)}
	b.lane.Define(defs, func() error { return b.state.Save(document, recorded) })
}

// tool compares one tool; ok is true if there is something to record.
func (b *Book) tool(o *Observation, name string, definitions [][]byte) (d record.Definition, ok bool) {
	before, had := b.seen.Tools[name]
	if !had && len(b.seen.Tools) >= toolcontract.MaxTools {
		b.log.Warn("a tool is not watched: there are too many", "tool", name, "watched", toolcontract.MaxTools)
		return d, false
	}
	digests, value := toolcontract.Digest(definitions...)
	if had && before.Digests == digests {
		return d, false
	}
	d = record.Definition{Peers: o.Peers, TraceID: o.TraceID, Subject: Subject(o.Server, name), Value: value, At: o.At,
		Refs: map[string]string{"definition": digests.Definition, "presentation": digests.Presentation}}
	switch {
	case had:
		d.Reasons = []string{reasonChanged}
		d.Refs["definitionBefore"], d.Refs["presentationBefore"] = before.Definition, before.Presentation
		b.log.Warn("the definition of a tool changed", "tool", name, "definition", digests.Definition, "before", before.Definition)
	case b.seen.List != "":
		d.Reasons = []string{reasonSet}
	}
	b.seen.Tools[name] = known{digests, before.InList}
	return d, true
}

// list compares a whole list.
func (b *Book) list(o *Observation, byName map[string][][]byte) (d record.Definition, ok bool) {
	definitions := map[string]string{}
	set, changed := false, false
	for name := range byName {
		if k, watched := b.seen.Tools[name]; watched {
			definitions[name] = k.Definition
			set = set || k.InList == ""
			changed = changed || k.InList != "" && k.InList != k.Definition
		}
	}
	for name, k := range b.seen.Tools {
		set = set || k.InList != "" && definitions[name] == ""
	}
	digest, before := toolcontract.DigestList(definitions), b.seen.List
	if digest == before {
		return d, false
	}
	for name, k := range b.seen.Tools {
		k.InList = definitions[name]
		b.seen.Tools[name] = k
	}
	b.seen.List = digest
	value, err := json.Marshal(definitions, json.Deterministic(true))
	if err != nil { // names that are no UTF-8 were read as such
		b.log.Error("a list of tools cannot be encoded", "error", err.Error())
	}
	d = record.Definition{Peers: o.Peers, TraceID: o.TraceID, Subject: Subject(o.Server, ""), Value: value, At: o.At, Refs: map[string]string{"tools": digest}}
	if before != "" {
		d.Refs["toolsBefore"] = before
		if changed {
			d.Reasons = append(d.Reasons, reasonChanged)
		}
		if set {
			d.Reasons = append(d.Reasons, reasonSet)
		}
	}
	return d, true
}

// Subject is the id of the contract of a tool, or of a server's list of tools
// where tool is empty.
func Subject(server, tool string) string {
	if server == "" {
		server = "unknown"
	}
	if tool == "" {
		return "mcp/" + server
	}
	return "mcp/" + server + "/" + tool
}
