package trust

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds of a tlog-policy. The specification asks for at least 32 of each.
const (
	MaxPolicyBytes  = 1 << 20
	maxPolicyLogs   = 64
	maxPolicyGroups = 64
)

// QuorumNone is the reserved name of the quorum that asks for no cosignature.
const QuorumNone = "none"

// PolicyError says which line of a policy was refused, and why.
type PolicyError struct {
	Line   int // from 1; 0 is the policy as a whole
	Detail string
}

func (e *PolicyError) Error() string {
	if e.Line == 0 {
		return "policy: " + e.Detail
	}
	return fmt.Sprintf("policy line %d: %s", e.Line, e.Detail)
}

// Policy is a C2SP tlog-policy: a checkpoint is valid if any one of the logs
// signed it and witnesses cosigned it as the quorum asks. Names are octet
// strings: nothing is folded or normalised.
type Policy struct {
	Logs      []PolicyLog
	Witnesses []PolicyWitness
	Groups    []PolicyGroup
	// Quorum is the name of a witness or group, or QuorumNone.
	Quorum string
}

// PolicyLog is a line "log <vkey> [<url>]".
type PolicyLog struct {
	Key VerifierKey
	URL string // "" without one
}

// PolicyWitness is a line "witness <name> <vkey> [<url>]".
type PolicyWitness struct {
	Name string
	Key  VerifierKey
	URL  string // "" without one
}

// PolicyGroup is a line "group <name> all|any|<k> <member>…".
type PolicyGroup struct {
	Name    string
	K       int // 1 to len(Members)
	Members []string
}

// ParsePolicy reads tlog-policy text to the letter: lines ended by a newline;
// items separated by spaces and tabs alone; comments on lines of their own;
// names defined on an earlier line, once, and used as a member at most once;
// 1 ≤ k ≤ n in decimal; no public key twice among the logs or among the
// witnesses; exactly one quorum line. Errors are of type *[PolicyError].
func ParsePolicy(b []byte) (*Policy, error) {
	if len(b) > MaxPolicyBytes {
		return nil, &PolicyError{0, fmt.Sprintf("%d bytes, limit %d", len(b), MaxPolicyBytes)}
	}
	p := policyParser{kinds: map[string]string{}, member: map[string]bool{}}
	line := 0
	for rest := string(b); rest != ""; {
		line++
		text, after, ok := strings.Cut(rest, "\n")
		if !ok {
			return nil, &PolicyError{line, "does not end in a newline"}
		}
		rest = after
		if err := p.line(text); err != nil {
			return nil, &PolicyError{line, err.Error()}
		}
	}
	if !p.hasQuorum {
		return nil, &PolicyError{0, "no quorum line"}
	}
	return &p.policy, nil
}

type policyParser struct {
	policy    Policy
	kinds     map[string]string // name → witness or group
	member    map[string]bool   // names that are a member of some group
	hasQuorum bool
}

func (p *policyParser) line(text string) error {
	for i := 0; i < len(text); i++ {
		if c := text[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return fmt.Errorf("control character 0x%02x at byte %d", c, i)
		}
	}
	items := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\t' })
	if len(items) == 0 || strings.HasPrefix(items[0], "#") {
		return nil
	}
	switch keyword, args := items[0], items[1:]; keyword {
	case "log":
		return p.log(args)
	case "witness":
		return p.witness(args)
	case "group":
		return p.group(args)
	case "quorum":
		return p.quorum(args)
	default:
		return fmt.Errorf("%q is not log, witness, group or quorum", clip(keyword))
	}
}

func (p *policyParser) log(args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return fmt.Errorf("log takes a key and perhaps a URL, got %d items", len(args))
	}
	k, err := ParseVerifierKey(args[0])
	if err != nil {
		return err
	}
	if !k.Logs() {
		return fmt.Errorf("log key %s is of type %s, want 0x01 or 0x06", clip(k.Name), k.Type)
	}
	for _, other := range p.policy.Logs {
		if k.SameKey(other.Key) {
			return fmt.Errorf("log %s has the public key of log %s", clip(k.Name), clip(other.Key.Name))
		}
	}
	if len(p.policy.Logs) == maxPolicyLogs {
		return fmt.Errorf("more than %d logs", maxPolicyLogs)
	}
	p.policy.Logs = append(p.policy.Logs, PolicyLog{k, optional(args[1:])})
	return nil
}

func (p *policyParser) witness(args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return fmt.Errorf("witness takes a name, a key and perhaps a URL, got %d items", len(args))
	}
	k, err := ParseVerifierKey(args[1])
	if err != nil {
		return err
	}
	if !k.Cosigns() {
		return fmt.Errorf("witness key %s is of type %s, want 0x04 or 0x06", clip(k.Name), k.Type)
	}
	for _, other := range p.policy.Witnesses {
		if k.SameKey(other.Key) {
			return fmt.Errorf("witness %s has the public key of witness %s", clip(args[0]), clip(other.Name))
		}
	}
	if len(p.policy.Witnesses) == MaxWitnesses {
		return fmt.Errorf("more than %d witnesses", MaxWitnesses)
	}
	if err := p.define(args[0], "witness"); err != nil {
		return err
	}
	p.policy.Witnesses = append(p.policy.Witnesses, PolicyWitness{args[0], k, optional(args[2:])})
	return nil
}

func (p *policyParser) group(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("group takes a name, all, any or a number, and at least one member, got %d items", len(args))
	}
	members := args[2:]
	k := 0
	switch args[1] {
	case "all":
		k = len(members)
	case "any":
		k = 1
	default:
		n, err := strconv.Atoi(args[1])
		if err != nil || strconv.Itoa(n) != args[1] {
			return fmt.Errorf("%q is not all, any or a decimal number", clip(args[1]))
		}
		if n < 1 || n > len(members) {
			return fmt.Errorf("%d of %d members: want 1 to %d", n, len(members), len(members))
		}
		k = n
	}
	for _, m := range members {
		if p.kinds[m] == "" {
			return fmt.Errorf("member %q is not defined on a line before", clip(m))
		}
		if p.member[m] {
			return fmt.Errorf("%q is a member of a group already", clip(m))
		}
		p.member[m] = true
	}
	if len(p.policy.Groups) == maxPolicyGroups {
		return fmt.Errorf("more than %d groups", maxPolicyGroups)
	}
	if err := p.define(args[0], "group"); err != nil {
		return err
	}
	p.policy.Groups = append(p.policy.Groups, PolicyGroup{args[0], k, slices.Clone(members)})
	return nil
}

func (p *policyParser) quorum(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("quorum takes one name, got %d items", len(args))
	}
	if p.hasQuorum {
		return errors.New("a second quorum line")
	}
	if args[0] != QuorumNone && p.kinds[args[0]] == "" {
		return fmt.Errorf("%q is not defined on a line before", clip(args[0]))
	}
	p.policy.Quorum, p.hasQuorum = args[0], true
	return nil
}

func (p *policyParser) define(name, kind string) error {
	if name == QuorumNone {
		return fmt.Errorf("the name %q is reserved", name)
	}
	if had := p.kinds[name]; had != "" {
		return fmt.Errorf("the name %q is that of a %s already", clip(name), had)
	}
	p.kinds[name] = kind
	return nil
}

func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// Append adds the policy as tlog-policy text to dst: logs, witnesses, groups,
// quorum, one space between items.
func (p *Policy) Append(dst []byte) []byte {
	line := func(items ...string) {
		for i, item := range items {
			if item == "" {
				continue
			}
			if i > 0 {
				dst = append(dst, ' ')
			}
			dst = append(dst, item...)
		}
		dst = append(dst, '\n')
	}
	for _, l := range p.Logs {
		line("log", l.Key.String(), l.URL)
	}
	for _, w := range p.Witnesses {
		line("witness", w.Name, w.Key.String(), w.URL)
	}
	for _, g := range p.Groups {
		line(append([]string{"group", g.Name, strconv.Itoa(g.K)}, g.Members...)...)
	}
	line("quorum", p.Quorum)
	return dst
}

// Satisfied reports whether the witnesses whose policy names cosigned accepts
// meet the quorum.
func (p *Policy) Satisfied(cosigned func(witness string) bool) bool {
	met := make(map[string]bool, len(p.Witnesses)+len(p.Groups))
	met[QuorumNone] = true
	for _, w := range p.Witnesses {
		met[w.Name] = cosigned(w.Name)
	}
	for _, g := range p.Groups { // members stand before their group
		n := 0
		for _, m := range g.Members {
			if met[m] {
				n++
			}
		}
		met[g.Name] = n >= g.K
	}
	return met[p.Quorum]
}

// Validate checks a policy that was not made by ParsePolicy, by the same rules.
func (p *Policy) Validate() error {
	_, err := ParsePolicy(p.Append(nil))
	return err
}

// LogsOf returns the keys of the policy's logs that are named like the origin.
func (p *Policy) LogsOf(origin string) []VerifierKey {
	var out []VerifierKey
	for _, l := range p.Logs {
		if l.Key.Name == origin {
			out = append(out, l.Key)
		}
	}
	return out
}

// CheckPolicy reports where a policy that is used beside the trust file
// contradicts it: the policy then says which logs and witnesses count, and the
// trust file which keys sign events. The policy must list the trust file's log
// key; none of its witnesses may hold the key of a log of that origin; and it
// must ask for a quorum if the trust file does.
func (f *File) CheckPolicy(p *Policy) error {
	logs := p.LogsOf(f.Origin())
	if !slices.ContainsFunc(logs, f.Log.SameKey) {
		return fmt.Errorf("the policy does not list the trust file's log key %s+%08x", clip(f.Log.Name), f.Log.ID)
	}
	for _, w := range p.Witnesses {
		if slices.ContainsFunc(logs, w.Key.SameKey) {
			return fmt.Errorf("witness %s of the policy has the public key of the log: a log does not witness itself", clip(w.Name))
		}
	}
	if f.Quorum > 0 && p.Quorum == QuorumNone {
		return fmt.Errorf("the trust file asks for %d of %d witnesses, and the policy for none", f.Quorum, len(f.Witnesses))
	}
	return nil
}

// File turns a policy with one log and a quorum of none, of one witness, or of
// one group of witnesses into a trust file with the given event keys. Witnesses
// that the quorum does not ask are left out. Other policies cannot be written as
// k of n and are refused.
func (p *Policy) File(keys EventKeys) (*File, error) {
	if len(p.Logs) != 1 {
		return nil, &PolicyError{0, fmt.Sprintf("%d logs; a trust file names one", len(p.Logs))}
	}
	f := &File{Log: p.Logs[0].Key, EventKeys: keys}
	asked := []string{p.Quorum}
	if p.Quorum != QuorumNone {
		f.Quorum = 1
	}
	for _, g := range p.Groups {
		if g.Name == p.Quorum {
			asked, f.Quorum = g.Members, g.K
		}
	}
	for _, w := range p.Witnesses {
		if slices.Contains(asked, w.Name) {
			f.Witnesses = append(f.Witnesses, w.Key)
		}
	}
	if p.Quorum != QuorumNone && len(f.Witnesses) != len(asked) {
		return nil, &PolicyError{0, fmt.Sprintf("quorum %q is a group of groups; a trust file says k of n witnesses", clip(p.Quorum))}
	}
	if err := f.Validate(); err != nil {
		return nil, &PolicyError{0, err.Error()}
	}
	return f, nil
}

// Policy returns the log and witness part of the trust file as a policy. The
// witnesses carry their key names, unless a name is taken; those are called
// witness-1, witness-2 and so on.
func (f *File) Policy() *Policy {
	p := &Policy{Logs: []PolicyLog{{Key: f.Log}}, Quorum: QuorumNone}
	group := PolicyGroup{Name: "witnesses", K: f.Quorum}
	taken := map[string]bool{QuorumNone: true, group.Name: true}
	for _, w := range f.Witnesses {
		name := w.Name
		for i := 1; taken[name]; i++ {
			name = "witness-" + strconv.Itoa(i)
		}
		taken[name] = true
		p.Witnesses = append(p.Witnesses, PolicyWitness{Name: name, Key: w})
		group.Members = append(group.Members, name)
	}
	if f.Quorum > 0 {
		p.Groups, p.Quorum = []PolicyGroup{group}, group.Name
	}
	return p
}
