package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"counterfoil/ledger/admission"
	"counterfoil/ledger/canon"
)

// Bounds of a document.
const (
	MaxDocumentBytes = 256 << 10
	maxDepth         = 16
	maxInteger       = 1 << 31
)

// profile is the domain of a document's canonical form. It grows by less than a
// factor of six.
var profile = canon.Profile{MaxBytes: 6 * MaxDocumentBytes, MaxDepth: maxDepth + 1}

// node is a value of the document: a mapping, a list, or a scalar.
type node struct {
	line, column int
	kind         yaml.Kind
	tag          string // of a scalar: !!str, !!int or !!bool
	text         string
	keys         []*node // of a mapping, each with its value
	values       []*node // of a mapping or a list
}

// reader collects the problems of a document.
type reader struct{ problems []Problem }

func (r *reader) report(sev Severity, n *node, code, path, hint, format string, args ...any) {
	p := Problem{Severity: sev, Code: code, Path: path, Message: fmt.Sprintf(format, args...), Hint: hint}
	if p.Path == "" {
		p.Path = "/"
	}
	if n != nil {
		p.Line, p.Column = n.line, n.column
	}
	r.problems = append(r.problems, p)
}

func (r *reader) fail(n *node, code, path, hint, format string, args ...any) {
	r.report(SeverityError, n, code, path, hint, format, args...)
}

var yamlLine = regexp.MustCompile(`line (\d+)`)

// document reads one YAML document into nodes. Anchors, aliases, tags and merge
// keys are refused: a policy says what it says where it says it.
func (r *reader) document(b []byte) *node {
	if len(b) > MaxDocumentBytes {
		r.fail(nil, "too-large", "", "split the policy", "%d bytes, limit %d", len(b), MaxDocumentBytes)
		return nil
	}
	if !utf8.Valid(b) {
		r.fail(nil, "syntax", "", "", "is not UTF-8")
		return nil
	}
	if line, deep := nesting(b); deep {
		r.fail(&node{line: line, column: 1}, "too-deep", "", "", "more than %d levels of nesting", maxDepth)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			r.fail(nil, "syntax", "", "", "the document is empty")
			return nil
		}
		r.syntax(err)
		return nil
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			r.syntax(err)
		} else {
			r.fail(&node{line: more.Line, column: more.Column}, "syntax", "", "", "a second document in the file")
		}
		return nil
	}
	if len(doc.Content) != 1 {
		r.fail(nil, "syntax", "", "", "the document is empty")
		return nil
	}
	return r.node(doc.Content[0], "", 1)
}

func (r *reader) syntax(err error) {
	at := &node{column: 1}
	if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
		at.line, _ = strconv.Atoi(m[1])
	}
	r.fail(at, "syntax", "", "", "%s", strings.TrimPrefix(err.Error(), "yaml: "))
}

// nesting refuses deep flow collections before the parser recurses into them.
// Brackets in strings count too; nobody has that many in a line of a policy.
func nesting(b []byte) (line int, deep bool) {
	line, depth := 1, 0
	for _, c := range b {
		switch c {
		case '\n':
			line++
		case '[', '{':
			if depth++; depth > 1000 {
				return line, true
			}
		case ']', '}':
			depth = max(depth-1, 0)
		}
	}
	return 0, false
}

func (r *reader) node(y *yaml.Node, path string, depth int) *node {
	n := &node{line: y.Line, column: y.Column, kind: y.Kind, text: y.Value}
	switch {
	case depth > maxDepth:
		r.fail(n, "too-deep", path, "", "more than %d levels of nesting", maxDepth)
		return nil
	case y.Kind == yaml.AliasNode || y.Anchor != "":
		r.fail(n, "alias", path, "write the value out", "anchors and aliases are not accepted")
		return nil
	case y.Style&yaml.TaggedStyle != 0:
		r.fail(n, "tag", path, "leave the tag out", "tag %s is not accepted", y.Tag)
		return nil
	}
	switch y.Kind {
	case yaml.MappingNode:
		return r.mapping(n, y, path, depth)
	case yaml.SequenceNode:
		for i, item := range y.Content {
			if v := r.node(item, path+"/"+strconv.Itoa(i), depth+1); v != nil {
				n.values = append(n.values, v)
			}
		}
		return n
	case yaml.ScalarNode:
		return r.scalar(n, y, path)
	}
	r.fail(n, "syntax", path, "", "unexpected kind of value")
	return nil
}

func (r *reader) mapping(n *node, y *yaml.Node, path string, depth int) *node {
	lines := make(map[string]int)
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		key := &node{line: k.Line, column: k.Column, kind: k.Kind, text: k.Value, tag: "!!str"}
		switch {
		case k.Kind == yaml.AliasNode || k.Anchor != "" || k.Tag == "!!merge":
			r.fail(key, "alias", path, "write the members out", "anchors, aliases and merge keys are not accepted")
			continue
		case k.Kind != yaml.ScalarNode || k.Tag != "!!str" && k.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0:
			r.fail(key, "type", path, "quote it", "a member's name must be a string")
			continue
		case lines[k.Value] != 0:
			r.fail(key, "duplicate", path+"/"+k.Value, "", "stands at line %d already", lines[k.Value])
			continue
		}
		lines[k.Value] = k.Line
		if v := r.node(y.Content[i+1], path+"/"+k.Value, depth+1); v != nil {
			n.keys, n.values = append(n.keys, key), append(n.values, v)
		}
	}
	return n
}

func (r *reader) scalar(n *node, y *yaml.Node, path string) *node {
	n.tag = y.ShortTag()
	switch n.tag {
	case "!!str":
		return n
	case "!!bool":
		if y.Value == "true" || y.Value == "false" {
			return n
		}
		r.fail(n, "type", path, "write true or false, or quote it", "%q is a boolean in one of its other spellings", y.Value)
	case "!!int":
		if i, err := strconv.ParseInt(y.Value, 10, 64); err == nil && strconv.FormatInt(i, 10) == y.Value && i > -maxInteger && i < maxInteger {
			return n
		}
		r.fail(n, "type", path, "quote it if it is text", "%q is no plain decimal integer within ±2^31", y.Value)
	case "!!null":
		r.fail(n, "type", path, "leave the member out", "is empty")
	default:
		r.fail(n, "type", path, "quote it", "%q is read as %s, want text, an integer, true or false", y.Value, strings.TrimPrefix(n.tag, "!!"))
	}
	return nil
}

// get returns a member of a mapping; nil if it is not there.
func (n *node) get(key string) *node {
	if n == nil {
		return nil
	}
	for i, k := range n.keys {
		if k.text == key {
			return n.values[i]
		}
	}
	return nil
}

// object checks that a value is a mapping with these members: "!" marks those
// that must be there.
func (r *reader) object(n *node, path string, members ...string) bool {
	if n == nil {
		return false
	}
	if n.kind != yaml.MappingNode {
		r.fail(n, "type", path, "", "want a mapping")
		return false
	}
	var known []string
	for _, m := range members {
		name, required := strings.CutPrefix(m, "!")
		known = append(known, name)
		if required && n.get(name) == nil {
			r.fail(n, "missing", path+"/"+name, "", "is missing")
		}
	}
	for _, k := range n.keys {
		if !slices.Contains(known, k.text) {
			r.fail(k, "unknown", path+"/"+k.text, "known are "+strings.Join(known, ", "), "unknown member")
		}
	}
	return true
}

// text reads a string of 1 to most bytes; "" if it is absent or wrong.
func (r *reader) text(n *node, path string, most int) string {
	switch {
	case n == nil:
		return ""
	case n.kind != yaml.ScalarNode || n.tag != "!!str":
		r.fail(n, "type", path, "quote it", "want text")
	case n.text == "":
		r.fail(n, "missing", path, "", "is empty")
	case len(n.text) > most:
		r.fail(n, "too-large", path, "", "%d bytes, limit %d", len(n.text), most)
	default:
		return n.text
	}
	return ""
}

// choice reads one of some words.
func choice[T ~string](r *reader, n *node, path string, words ...T) T {
	s := T(r.text(n, path, 64))
	if s != "" && !slices.Contains(words, s) {
		r.fail(n, "value", path, "", "is %q, want one of %s", s, join(words))
		return ""
	}
	return s
}

func join[T ~string](words []T) string {
	s := make([]string, len(words))
	for i, w := range words {
		s[i] = string(w)
	}
	return strings.Join(s, ", ")
}

var idPattern = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,63}$`)

// id reads a name that others refer to.
func (r *reader) id(n *node, path string) string {
	s := r.text(n, path, 64)
	if s != "" && !idPattern.MatchString(s) {
		r.fail(n, "value", path, "", "is %q, want 1 to 64 of a-z, 0-9, _ and -, a letter first", s)
		return ""
	}
	return s
}

func (r *reader) integer(n *node, path string, least, most int) int {
	if n == nil {
		return 0
	}
	if n.kind != yaml.ScalarNode || n.tag != "!!int" {
		r.fail(n, "type", path, "", "want an integer")
		return 0
	}
	i, _ := strconv.Atoi(n.text)
	if i < least || i > most {
		r.fail(n, "value", path, "", "is %d, want %d to %d", i, least, most)
		return 0
	}
	return i
}

func (r *reader) boolean(n *node, path string) bool {
	if n == nil {
		return false
	}
	if n.kind != yaml.ScalarNode || n.tag != "!!bool" {
		r.fail(n, "type", path, "", "want true or false")
		return false
	}
	return n.text == "true"
}

// list reads up to most values.
func (r *reader) list(n *node, path string, most int, each func(n *node, path string)) {
	switch {
	case n == nil:
	case n.kind != yaml.SequenceNode:
		r.fail(n, "type", path, "", "want a list")
	case len(n.values) > most:
		r.fail(n, "too-large", path, "", "%d entries, limit %d", len(n.values), most)
	default:
		for i, v := range n.values {
			each(v, path+"/"+strconv.Itoa(i))
		}
	}
}

// mappingOf reads a mapping with names of one's own choice, in their order.
func (r *reader) mappingOf(n *node, path string, most int, each func(key, value *node, path string)) {
	switch {
	case n == nil:
	case n.kind != yaml.MappingNode:
		r.fail(n, "type", path, "", "want a mapping")
	case len(n.values) > most:
		r.fail(n, "too-large", path, "", "%d entries, limit %d", len(n.values), most)
	default:
		for i, v := range n.values {
			each(n.keys[i], v, path+"/"+n.keys[i].text)
		}
	}
}

// json returns the canonical JSON form and its digest.
func (n *node) json() (canonical []byte, digest string, err error) {
	var b bytes.Buffer
	enc := jsontext.NewEncoder(&b)
	if err := n.write(enc); err != nil {
		return nil, "", err
	}
	if canonical, err = profile.Canonical(bytes.TrimSuffix(b.Bytes(), []byte("\n"))); err != nil {
		return nil, "", err
	}
	return canonical, admission.Digest(canonical), nil
}

func (n *node) write(enc *jsontext.Encoder) error {
	switch n.kind {
	case yaml.MappingNode:
		if err := enc.WriteToken(jsontext.BeginObject); err != nil {
			return err
		}
		for i, v := range n.values {
			if err := enc.WriteToken(jsontext.String(n.keys[i].text)); err != nil {
				return err
			}
			if err := v.write(enc); err != nil {
				return err
			}
		}
		return enc.WriteToken(jsontext.EndObject)
	case yaml.SequenceNode:
		if err := enc.WriteToken(jsontext.BeginArray); err != nil {
			return err
		}
		for _, v := range n.values {
			if err := v.write(enc); err != nil {
				return err
			}
		}
		return enc.WriteToken(jsontext.EndArray)
	}
	switch n.tag {
	case "!!bool":
		return enc.WriteToken(jsontext.Bool(n.text == "true"))
	case "!!int":
		return enc.WriteValue(jsontext.Value(n.text))
	}
	return enc.WriteToken(jsontext.String(n.text))
}
