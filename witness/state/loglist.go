package state

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"counterfoil/ledger/trust"
)

// Bounds of a log list. The public lists plan with up to 40,000 logs.
const (
	MaxListBytes   = 64 << 20
	MaxListLogs    = 200_000
	maxContact     = 1024
	maxOriginBytes = trust.MaxKeyNameBytes // what a cosignature of type 0x06 can name
	maxQPD         = 1 << 40
	listHeader     = "logs/v0"
)

// ErrList is what every refusal of [ParseLogList] wraps.
var ErrList = errors.New("malformed log list")

// Log is one log that the witness cosigns.
type Log struct {
	// Key verifies the log's checkpoints.
	Key trust.VerifierKey
	// Origin is the first line of its checkpoints.
	Origin string
	// QPD is how many add-checkpoint requests it may make a day; at least 1.
	QPD uint64
	// Contact is for people.
	Contact string
}

// ParseLogList reads a list of logs in the format logs/v0 of the public witness
// network. After the line "logs/v0", for each log and in this order:
//
//	vkey <verifier key>
//	origin <origin>       only if it is not the name of the key
//	qpd <requests a day>
//	contact <text>
//
// Blank lines and lines that begin with # are ignored. Every line ends in a
// newline. An origin may stand in the list once. Errors name the line.
func ParseLogList(b []byte) ([]Log, error) {
	if len(b) > MaxListBytes {
		return nil, fmt.Errorf("%w: %d bytes, limit %d", ErrList, len(b), MaxListBytes)
	}
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%w: invalid UTF-8", ErrList)
	}
	p := listParser{want: wantHeader, lines: map[string]int{}}
	n := 0
	for line := range strings.Lines(string(b)) {
		n++
		text, ok := strings.CutSuffix(line, "\n")
		if !ok {
			return nil, fmt.Errorf("%w: line %d: does not end in a newline", ErrList, n)
		}
		if text == "" || text[0] == '#' {
			continue
		}
		if err := p.line(n, text); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrList, n, err)
		}
	}
	switch p.want {
	case wantHeader:
		return nil, fmt.Errorf("%w: no line %q", ErrList, listHeader)
	case wantKey:
		return p.logs, nil
	}
	return nil, fmt.Errorf("%w: the last log is incomplete: it has no %s", ErrList, p.want)
}

type listLine string

const (
	wantHeader  listLine = listHeader
	wantKey     listLine = "vkey"
	wantOrigin  listLine = "origin or qpd"
	wantQPD     listLine = "qpd"
	wantContact listLine = "contact"
)

type listParser struct {
	want  listLine
	logs  []Log
	log   Log
	lines map[string]int // origin → line of its vkey
	first int            // line of the vkey of log
}

func (p *listParser) line(n int, text string) error {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == 0x7f {
			return fmt.Errorf("control character 0x%02x at byte %d", c, i)
		}
	}
	if p.want == wantHeader {
		if text != listHeader {
			return fmt.Errorf("expected %q", listHeader)
		}
		p.want = wantKey
		return nil
	}
	keyword, value, _ := strings.Cut(text, " ")
	if value == "" || strings.TrimSpace(value) != value {
		return errors.New("expected a keyword, one space and a value without space around it")
	}
	switch {
	case keyword == "vkey" && p.want == wantKey:
		k, err := trust.ParseVerifierKey(value)
		if err != nil {
			return err
		}
		if !k.Logs() {
			return fmt.Errorf("key %s is of type %s, want 0x01 or 0x06", k.Name, k.Type)
		}
		if len(p.logs) == MaxListLogs {
			return fmt.Errorf("more than %d logs", MaxListLogs)
		}
		p.log, p.first, p.want = Log{Key: k, Origin: k.Name}, n, wantOrigin
	case keyword == "origin" && p.want == wantOrigin:
		if len(value) > maxOriginBytes {
			return fmt.Errorf("origin of %d bytes, limit %d", len(value), maxOriginBytes)
		}
		if value == "none" {
			return errors.New("origin none is of an older draft: leave the line out if the origin is the name of the key")
		}
		p.log.Origin, p.want = value, wantQPD
	case keyword == "qpd" && (p.want == wantOrigin || p.want == wantQPD):
		q, err := strconv.ParseUint(value, 10, 64)
		if err != nil || strconv.FormatUint(q, 10) != value || q < 1 || q > maxQPD {
			return fmt.Errorf("qpd is not a decimal number from 1 to %d", uint64(maxQPD))
		}
		p.log.QPD, p.want = q, wantContact
	case keyword == "contact" && p.want == wantContact:
		if len(value) > maxContact {
			return fmt.Errorf("contact of %d bytes, limit %d", len(value), maxContact)
		}
		if before, ok := p.lines[p.log.Origin]; ok {
			return fmt.Errorf("the log of line %d has the origin of the log of line %d", p.first, before)
		}
		p.lines[p.log.Origin] = p.first
		p.log.Contact = value
		p.logs, p.want = append(p.logs, p.log), wantKey
	default:
		return fmt.Errorf("expected %s", p.want)
	}
	return nil
}
