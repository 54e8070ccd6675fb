package review

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/event"
)

// Bounds of a file of contracts.
const (
	MaxContractsBytes = 64 << 20
	MaxContracts      = 100_000
)

// Document is a contract as an operator writes it: the members of
// event.ContractTerms beside schema and name.
type Document struct {
	Schema string `json:"schema"` // event.ContractSchema
	Name   string `json:"name"`   // an identifier; the subject id in the log
	event.ContractTerms
}

// Digest names the contract.
func (d *Document) Digest() string { return d.ContractTerms.Digest(d.Name).String() }

// ContractsSchema is the schema of a file with several contracts.
const ContractsSchema = "counterfoil.contracts.v1"

// ParseContracts reads a contract, or a list of them:
// {"schema":"counterfoil.contracts.v1","contracts":[…]}. Names are unique. Unknown
// members are refused.
func ParseContracts(b []byte) ([]Document, error) {
	if len(b) > MaxContractsBytes {
		return nil, fmt.Errorf("%d bytes of contracts, limit %d", len(b), MaxContractsBytes)
	}
	var head struct {
		Schema string         `json:"schema"`
		Rest   jsontext.Value `json:",inline"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, fmt.Errorf("contracts: %w (hint: the members are in docs/spec/review.md)", err)
	}
	var docs []Document
	switch head.Schema {
	case event.ContractSchema:
		docs = make([]Document, 1)
		if err := json.Unmarshal(b, &docs[0], json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("contract: %w", err)
		}
	case ContractsSchema:
		var list struct {
			Schema    string     `json:"schema"`
			Contracts []Document `json:"contracts"`
		}
		if err := json.Unmarshal(b, &list, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("contracts: %w", err)
		}
		docs = list.Contracts
	default:
		return nil, fmt.Errorf("schema is %q, want %s or %s", head.Schema, event.ContractSchema, ContractsSchema)
	}
	if len(docs) > MaxContracts {
		return nil, fmt.Errorf("%d contracts, limit %d", len(docs), MaxContracts)
	}
	return docs, CheckContracts(docs)
}

// CheckContracts checks contracts by themselves, and that no name is there twice.
func CheckContracts(docs []Document) error {
	names := make(map[string]bool, len(docs))
	for i := range docs {
		d := &docs[i]
		var ee *event.Error
		err := event.CheckID("/name", d.Name)
		if err == nil && d.Schema != event.ContractSchema {
			err = fmt.Errorf("/schema: is %q, want %s", d.Schema, event.ContractSchema)
		}
		if err == nil {
			err = d.Validate()
		}
		if errors.As(err, &ee) {
			err = fmt.Errorf("%s: %s", ee.Path, ee.Detail)
		}
		if err != nil {
			return fmt.Errorf("contract %d %q: %w", i+1, d.Name, err)
		}
		if names[d.Name] {
			return fmt.Errorf("contract %q is there twice", d.Name)
		}
		names[d.Name] = true
	}
	return nil
}

// EncodeContracts writes contracts as ParseContracts reads them, sorted by name.
func EncodeContracts(docs []Document) ([]byte, error) {
	docs = slices.SortedFunc(slices.Values(docs), func(a, b Document) int { return strings.Compare(a.Name, b.Name) })
	b, err := json.Marshal(struct {
		Schema    string     `json:"schema"`
		Contracts []Document `json:"contracts"`
	}{ContractsSchema, docs}, jsontext.Multiline(true))
	return append(bytes.TrimSpace(b), '\n'), err
}

// Contract is a contract that is in force, as the log has it.
type Contract struct {
	Name  string
	Terms event.ContractTerms
	// Attempt set the contract, by its event Event. A review is appended to it.
	Attempt string
	Event   string
	SetAt   time.Time
	// Last is the newest review of it of any mode; nil without one.
	Last *Last
}

// Digest names the contract.
func (c *Contract) Digest() string { return c.Terms.Digest(c.Name).String() }

// Last is what a contract's newest review says.
type Last struct {
	Run         string // empty of a person's review
	At          time.Time
	Receipt     string
	Policy      string
	Verifiers   string
	Contract    string
	Impact      string
	Disposition string
}
