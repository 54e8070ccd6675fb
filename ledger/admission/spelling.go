package admission

import (
	"maps"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Members that version 2025-07-09 spells in snake_case and later ones in
// camelCase, by where they stand. A reader of the other spelling drops them in
// silence: what it then does not see includes fileSha256 and isSecret.
var (
	entrySpellings   = map[string]string{"website_url": "websiteUrl"}
	packageSpellings = map[string]string{
		"registry_type": "registryType", "registry_base_url": "registryBaseUrl", "file_sha256": "fileSha256",
		"runtime_hint": "runtimeHint", "runtime_arguments": "runtimeArguments", "package_arguments": "packageArguments",
		"environment_variables": "environmentVariables",
	}
	inputSpellings = map[string]string{
		"is_required": "isRequired", "is_secret": "isSecret", "is_repeated": "isRepeated", "value_hint": "valueHint",
	}
)

// checkSpelling refuses members in the spelling of another schema version.
func checkSpelling(raw []byte, snake bool) *Failure {
	s := &speller{snake: snake}
	top := s.object("", raw, entrySpellings)
	s.each("/packages", top["packages"], s.pkg)
	s.each("/remotes", top["remotes"], s.transport)
	return s.failure
}

type speller struct {
	snake   bool
	failure *Failure
}

// object checks the members of a value, if it is an object, and returns them.
func (s *speller) object(path string, raw jsontext.Value, spellings map[string]string) map[string]jsontext.Value {
	var members map[string]jsontext.Value
	if raw.Kind() != '{' || json.Unmarshal(raw, &members) != nil {
		return nil
	}
	for _, snake := range slices.Sorted(maps.Keys(spellings)) {
		wrong, right, code := snake, spellings[snake], EntrySnakeCase
		if s.snake {
			wrong, right, code = right, wrong, EntryInvalid
		}
		if _, ok := members[wrong]; ok && s.failure == nil {
			s.failure = refuse(code, "%s/%s: this schema version spells it %s", path, wrong, right)
		}
	}
	return members
}

func (s *speller) each(path string, raw jsontext.Value, visit func(path string, raw jsontext.Value)) {
	var items []jsontext.Value
	if raw.Kind() != '[' || json.Unmarshal(raw, &items) != nil {
		return
	}
	for i, item := range items {
		visit(path+"/"+strconv.Itoa(i), item)
	}
}

func (s *speller) pkg(path string, raw jsontext.Value) {
	p := s.object(path, raw, packageSpellings)
	for _, list := range []string{
		"runtimeArguments", "packageArguments", "environmentVariables",
		"runtime_arguments", "package_arguments", "environment_variables",
	} {
		s.each(path+"/"+list, p[list], s.input)
	}
	s.transport(path+"/transport", p["transport"])
}

func (s *speller) transport(path string, raw jsontext.Value) {
	s.each(path+"/headers", s.object(path, raw, nil)["headers"], s.input)
}

func (s *speller) input(path string, raw jsontext.Value) { s.object(path, raw, inputSpellings) }
