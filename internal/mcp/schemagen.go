package mcp

import (
	"maps"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// described derives the exact schema of a Go type from its JSON members, so that
// a member that the ledger's answers gain is in the schema too. refine says more
// of members than their Go type does, by name.
type described struct {
	refine map[string]schema
	defs   map[string]schema       // of types that hold themselves
	within []reflect.Type          // being described
	twice  map[reflect.Type]string // of those, the ones that were met again
}

// describe is the schema of T, to be put into a root with [answerOr].
func describe[T any](refine map[string]schema) schema {
	d := &described{refine: refine, defs: map[string]schema{}, twice: map[reflect.Type]string{}}
	s := d.of(reflect.TypeFor[T]())
	if len(d.defs) > 0 {
		s = maps.Clone(s)
		s["$defs"] = d.defs
	}
	return s
}

func (d *described) of(t reflect.Type) schema {
	if t == reflect.TypeFor[jsontext.Value]() {
		return schema{} // any JSON: refine it by name
	}
	switch t.Kind() {
	case reflect.Pointer:
		return d.of(t.Elem())
	case reflect.String:
		return text()
	case reflect.Bool:
		return flag()
	case reflect.Int, reflect.Int64:
		return schema{"type": "integer"}
	case reflect.Uint64:
		return natural()
	case reflect.Slice:
		return list(d.of(t.Elem()))
	case reflect.Map:
		return texts()
	case reflect.Struct:
		return d.object(t)
	}
	panic("no schema of " + t.String()) // a type of this program
}

func (d *described) object(t reflect.Type) schema {
	for _, outer := range d.within {
		if outer == t {
			d.twice[t] = t.Name()
			return schema{"$ref": "#/$defs/" + t.Name()}
		}
	}
	d.within = append(d.within, t)
	members, optional := map[string]schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() || name == "-" || name == "" {
			continue
		}
		if refined, ok := d.refine[name]; ok {
			if refined == nil {
				continue // never shown
			}
			members[name] = refined
		} else {
			members[name] = d.of(f.Type)
		}
		if strings.Contains(options, "omit") {
			optional = append(optional, name)
		}
	}
	d.within = d.within[:len(d.within)-1]
	s := object(members, optional...)
	if name, ok := d.twice[t]; ok {
		d.defs[name] = s
		return schema{"$ref": "#/$defs/" + name}
	}
	return s
}

// lifted moves the definitions of members to the root, where references look
// for them.
func lifted(root schema, members map[string]schema) schema {
	defs := map[string]schema{}
	for name, s := range members {
		if inner, ok := s["$defs"].(map[string]schema); ok {
			maps.Copy(defs, inner)
			s = maps.Clone(s)
			delete(s, "$defs")
			members[name] = s
		}
	}
	if len(defs) > 0 {
		root["$defs"] = defs
	}
	return root
}
