package policy

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
	"cel.dev/cel-go/interpreter"

	"counterfoil/ledger/admission"
)

// Bounds of a rule. MaxRuleCost is in units of CEL's cost model, about one for
// each step and each ten bytes of text looked at: a rule of a few clauses costs
// some hundred.
const (
	MaxRuleCost       = 100_000
	maxExpression     = 4096 // code points
	maxExpressionDeep = 50
)

// rule is one rule. The expressions are kept as programs.
type rule struct {
	id      string
	classes []string
	when    *expression // nil: always
	require *expression
	code    admission.Code
	says    string
	at      *node
	path    string
}

// expression is a checked CEL expression of type bool.
type expression struct {
	source  string
	ast     *cel.Ast
	program cel.Program
}

// The variables of a rule: the members of [admission.Facts]. The fact namespace
// is called auth, for namespace is a reserved word of CEL.
var variables = []string{"class", "server", "auth", "artifact", "attestations", "checks", "previous", "now"}

// environment declares the variables with their types, so that a misspelled
// member is found when the policy is read.
var environment = sync.OnceValues(func() (*cel.Env, error) {
	object := func(v any) *cel.Type { return cel.ObjectType("admission." + reflect.TypeOf(v).Name()) }
	return cel.NewEnv(
		ext.NativeTypes(ext.ParseStructTag("json"), reflect.TypeFor[admission.Facts]()),
		cel.ParserExpressionSizeLimit(maxExpression), cel.ParserRecursionLimit(maxExpressionDeep),
		cel.Variable("class", object(admission.FactClass{})),
		cel.Variable("server", object(admission.FactServer{})),
		cel.Variable("auth", object(admission.FactNamespace{})),
		cel.Variable("artifact", object(admission.FactArtifact{})),
		cel.Variable("attestations", cel.ListType(object(admission.FactAttestation{}))),
		cel.Variable("checks", cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable("previous", object(admission.FactPrevious{})),
		cel.Variable("now", cel.TimestampType),
	)
})

func activation(f *admission.Facts) map[string]any {
	return map[string]any{
		"class": f.Class, "server": f.Server, "auth": f.Namespace, "artifact": f.Artifact,
		"attestations": f.Attestations, "checks": f.Checks, "previous": f.Previous, "now": f.Now,
	}
}

func (r *reader) rule(n *node, path string, p *Policy) *rule {
	if !r.object(n, path, "!id", "!classes", "when", "!require", "code", "says") {
		return nil
	}
	out := &rule{at: n, path: path, id: r.id(n.get("id"), path+"/id"), says: r.text(n.get("says"), path+"/says", maxTextBytes)}
	if slices.ContainsFunc(p.rules, func(o *rule) bool { return o.id == out.id }) {
		r.fail(n.get("id"), "duplicate", path+"/id", "", "rule %s is there already", out.id)
	}
	out.classes = r.texts(n.get("classes"), path+"/classes")
	if n.get("when") != nil {
		out.when = r.expression(n.get("when"), path+"/when")
	}
	out.require = r.expression(n.get("require"), path+"/require")
	out.code = admission.PolicyRuleFailed
	if m := n.get("code"); m != nil {
		code, ok := admission.ParseCode(r.text(m, path+"/code", 64))
		if info, _ := code.Info(); !ok || info.Route == admission.RouteNone || info.Gate == admission.GateArchive {
			r.fail(m, "value", path+"/code", "see the reason codes in docs/spec/admission.md", "%q is no reason code of a rule", m.text)
		}
		out.code = code
	}
	return out
}

func (r *reader) expression(n *node, path string) *expression {
	source := r.text(n, path, maxExpression)
	if source == "" {
		return nil
	}
	env, err := environment()
	if err != nil {
		r.fail(n, "rule", path, "", "%v", err)
		return nil
	}
	ast, issues := env.Compile(source)
	if issues.Err() != nil {
		for _, e := range issues.Errors() {
			r.fail(n, "rule", path, "the variables are "+strings.Join(variables, ", "), "column %d of the expression: %s", e.Location.Column()+1, e.Message)
		}
		return nil
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		r.fail(n, "rule", path, "", "gives %s, want bool", ast.OutputType())
		return nil
	}
	program, err := env.Program(ast, cel.CostLimit(MaxRuleCost))
	if err != nil {
		r.fail(n, "rule", path, "", "%v", err)
		return nil
	}
	return &expression{source, ast, program}
}

// eval gives the value, or the code with which it could not be had.
func (e *expression) eval(vars map[string]any) (value bool, code admission.Code, err error) {
	out, _, err := e.program.Eval(vars)
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.As(err, &cancelled) && cancelled.Cause == interpreter.CostLimitExceeded:
		return false, admission.PolicyCostExceeded, fmt.Errorf("cost limit of %d exceeded", MaxRuleCost)
	case err != nil:
		return false, admission.PolicyRuleError, err
	}
	b, ok := out.(types.Bool)
	if !ok {
		return false, admission.PolicyRuleError, fmt.Errorf("gives %v, want bool", out.Type())
	}
	return bool(b), "", nil
}

// applies reports whether a rule is about a class. The word all stands for every
// class.
func (u *rule) applies(class string) bool {
	return slices.Contains(u.classes, class) || slices.Contains(u.classes, allClasses)
}

const allClasses = "all"

// Rules implements [admission.Policy]: one verdict for each rule, in the order of
// the document.
func (p *Policy) Rules(class string, f *admission.Facts) []admission.Verdict {
	vars := activation(f)
	verdicts := make([]admission.Verdict, 0, len(p.rules))
	for _, u := range p.rules {
		verdicts = append(verdicts, u.judge(class, vars))
	}
	return verdicts
}

func (u *rule) judge(class string, vars map[string]any) admission.Verdict {
	v := admission.Verdict{Gate: admission.GatePolicy, ID: "rule:" + u.id}
	broken := func(part string, code admission.Code, err error) admission.Verdict {
		v.Result, v.Codes, v.Detail = admission.ResultError, []admission.Code{code}, part+": "+err.Error()
		return v
	}
	if !u.applies(class) {
		v.Result = admission.ResultNotApplicable
		return v
	}
	if u.when != nil {
		switch on, code, err := u.when.eval(vars); {
		case err != nil:
			return broken("when", code, err)
		case !on:
			v.Result = admission.ResultNotApplicable
			return v
		}
	}
	switch ok, code, err := u.require.eval(vars); {
	case err != nil:
		return broken("require", code, err)
	case !ok:
		v.Result, v.Codes, v.Detail = admission.ResultFail, []admission.Code{u.code}, u.says
		if u.says == "" {
			v.Detail = "does not hold: " + u.require.source
		}
	default:
		v.Result = admission.ResultPass
	}
	return v
}
