package trust

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// The example of the tlog-policy text, with keys.
func examplePolicy(t testing.TB) string {
	var b strings.Builder
	w := func(name string) {
		fmt.Fprintf(&b, "witness %s %s\n", name, vkey(t, name+".example", TypeCosignature, name))
	}
	fmt.Fprintf(&b, "log %s\n\n", vkey(t, origin, TypeEd25519, "log"))
	w("X1")
	w("X2")
	w("X3")
	b.WriteString("group X-witnesses 2 X1 X2 X3\n\n")
	w("Y1")
	w("Y2")
	w("Y3")
	b.WriteString("group Y-witnesses any Y1 Y2 Y3\n\ngroup X-and-Y all X-witnesses Y-witnesses\nquorum X-and-Y\n")
	return b.String()
}

func TestCLM05_PolicyQuorum(t *testing.T) {
	p := must(ParsePolicy([]byte(examplePolicy(t))))(t)
	if len(p.Logs) != 1 || len(p.Witnesses) != 6 || len(p.Groups) != 3 {
		t.Fatalf("got %+v", p)
	}
	for signed, want := range map[string]bool{
		"":            false,
		"X1 X2":       false,
		"X1 Y1":       false,
		"X1 X3 Y2":    true,
		"X1 X2 X3":    false,
		"Y1 Y2 Y3 X1": false,
	} {
		if got := p.Satisfied(func(w string) bool { return strings.Contains(signed, w) }); got != want {
			t.Errorf("%q: got %v", signed, got)
		}
	}
	again := must(ParsePolicy(p.Append(nil)))(t)
	if d := cmp.Diff(p, again, cmpopts.IgnoreUnexported(VerifierKey{})); d != "" {
		t.Error(d)
	}
	if _, err := p.File(sampleFile(t).EventKeys); err == nil {
		t.Error("a quorum of groups was written as k of n")
	}
}

func TestCLM05_PolicyToTheLetter(t *testing.T) {
	log, w, v := vkey(t, origin, TypeEd25519, "log"), vkey(t, "w.example", TypeCosignature, "w"), vkey(t, "v.example", TypeMLDSA44, "v")
	both := fmt.Sprintf("witness w %s\nwitness v %s\n", w, v)
	for name, text := range map[string]string{
		"no logs":                   "quorum none\n",
		"comments and space":        "# a comment\n \t # another\n\n \t \nquorum \t none \t\n",
		"URLs":                      fmt.Sprintf("log %s https://log.example/#fragment\nwitness w %s https://w.example\nquorum w\n", log, w),
		"keywords as names":         fmt.Sprintf("witness all %s\nwitness any %s\ngroup group 1 all any\nquorum group\n", w, v),
		"a number as name":          fmt.Sprintf("witness 2 %s\ngroup g 1 2\nquorum g\n", w),
		"a hash as name":            fmt.Sprintf("witness #w %s\nquorum #w\n", w),
		"octets":                    fmt.Sprintf("witness \xff\xe2\x84\xaa %s\nwitness K %s\nquorum \xff\xe2\x84\xaa\n", w, v),
		"definitions after quorum":  "quorum none\n" + both,
		"a witness outside groups":  both + "group g all w\nquorum g\n",
		"a no-break space in names": fmt.Sprintf("witness a\u00a0b %s\nquorum a\u00a0b\n", w),
		"quorum of a member":        both + "group g all w v\nquorum w\n",
		"a log key as witness":      fmt.Sprintf("log %s\nwitness w %s\nquorum w\n", log, vkey(t, "x", TypeCosignature, "log")),
	} {
		if _, err := ParsePolicy([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct {
		text string
		line int
	}{
		"empty":                   {"", 0},
		"no quorum":               {both, 0},
		"no last newline":         {"quorum none", 1},
		"carriage return":         {"quorum none\r\n", 1},
		"delete":                  {"# \x7f\nquorum none\n", 1},
		"form feed":               {"quorum\fnone\n", 1},
		"comment after items":     {"quorum none # none\n", 1},
		"unknown keyword":         {"quorum none\nlogs x\n", 2},
		"upper case":              {"Quorum none\n", 1},
		"two quorums":             {"quorum none\nquorum none\n", 2},
		"quorum of two":           {both + "quorum w v\n", 3},
		"quorum before":           {"quorum w\n" + both, 1},
		"quorum without name":     {"quorum\n", 1},
		"member none":             {both + "group g all none\nquorum g\n", 3},
		"witness none":            {fmt.Sprintf("witness none %s\nquorum none\n", w), 1},
		"group none":              {both + "group none all w\nquorum none\n", 3},
		"unknown member":          {both + "group g all w x\nquorum g\n", 3},
		"group in itself":         {both + "group g all w g\nquorum g\n", 3},
		"member twice":            {both + "group g 1 w w\nquorum g\n", 3},
		"member of two groups":    {both + "group g all w\ngroup h all w v\nquorum g\n", 4},
		"no members":              {both + "group g all\nquorum g\n", 3},
		"k of 0":                  {both + "group g 0 w\nquorum g\n", 3},
		"k over n":                {both + "group g 3 w v\nquorum g\n", 3},
		"k with zeros":            {both + "group g 01 w\nquorum g\n", 3},
		"k with sign":             {both + "group g +1 w\nquorum g\n", 3},
		"k negative":              {both + "group g -1 w\nquorum g\n", 3},
		"k a word":                {both + "group g some w\nquorum g\n", 3},
		"name twice":              {fmt.Sprintf("witness w %s\nwitness w %s\nquorum w\n", w, v), 2},
		"group named as witness":  {both + "group w all v\nquorum w\n", 3},
		"same key, other name":    {both + fmt.Sprintf("witness x %s\nquorum w\n", vkey(t, "other", TypeCosignature, "w")), 3},
		"log twice":               {fmt.Sprintf("log %s\nlog %s\nquorum none\n", log, vkey(t, "other", TypeEd25519, "log")), 2},
		"witness without name":    {fmt.Sprintf("witness %s\nquorum none\n", w), 1},
		"too many items":          {fmt.Sprintf("witness w %s url url\nquorum w\n", w), 1},
		"log without key":         {"log\nquorum none\n", 1},
		"log with witness key":    {fmt.Sprintf("log %s\nquorum none\n", w), 1},
		"witness with log key":    {fmt.Sprintf("witness w %s\nquorum w\n", log), 1},
		"bad key":                 {"log x+00000000+AAAA\nquorum none\n", 1},
		"blank lines are counted": {"\n\n# x\nlog\n", 4},
	} {
		_, err := ParsePolicy([]byte(c.text))
		var pe *PolicyError
		if !errors.As(err, &pe) || pe.Line != c.line {
			t.Errorf("%s: got %v, want an error in line %d", name, err, c.line)
		}
	}
}

func TestCLM05_TrustFileAsPolicy(t *testing.T) {
	f := sampleFile(t)
	f.Witnesses = append(f.Witnesses, vkey(t, "none", TypeCosignature, "n"), vkey(t, "witnesses", TypeCosignature, "ws"))
	p := must(ParsePolicy(f.Policy().Append(nil)))(t)
	got := must(p.File(f.EventKeys))(t)
	if string(got.Append(nil)) != string(f.Append(nil)) {
		t.Errorf("comes back as %s, want %s", got.Append(nil), f.Append(nil))
	}
	f.Witnesses, f.Quorum = nil, 0
	p = must(ParsePolicy(f.Policy().Append(nil)))(t)
	if p.Quorum != QuorumNone {
		t.Errorf("quorum %q, want none", p.Quorum)
	}
	one := must(ParsePolicy([]byte(fmt.Sprintf("log %s\nwitness a %s\nwitness b %s\nquorum b\n", f.Log,
		vkey(t, "a.example", TypeCosignature, "a"), vkey(t, "b.example", TypeCosignature, "b")))))(t)
	if got := must(one.File(f.EventKeys))(t); got.Quorum != 1 || len(got.Witnesses) != 1 || got.Witnesses[0].Name != "b.example" {
		t.Errorf("one witness: got %+v", got)
	}
	for name, text := range map[string]string{
		"no log":   "quorum none\n",
		"two logs": fmt.Sprintf("log %s\nlog %s\nquorum none\n", f.Log, vkey(t, "other", TypeEd25519, "other")),
	} {
		if _, err := must(ParsePolicy([]byte(text)))(t).File(f.EventKeys); err == nil {
			t.Errorf("%s: made a trust file", name)
		}
	}
}
