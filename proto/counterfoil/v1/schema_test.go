package counterfoilv1_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"counterfoil/ledger/event"
	v1 "counterfoil/proto/counterfoil/v1"
)

// What is hashed and answered comes from the ledger's own codec and not from this
// schema, so the two are compared: the members of each JSON document are the
// fields of its message, by their proto3 JSON names.
func TestSchemaHasTheMembersOfTheFormats(t *testing.T) {
	for _, p := range []struct {
		message proto.Message
		format  any
	}{
		{&v1.Event{}, event.Event{}},
		{&v1.Subject{}, event.Subject{}},
		{&v1.Source{}, event.Source{}},
		{&v1.Assurance{}, event.Assurance{}},
		{&v1.Action{}, event.Action{}},
		{&v1.ReadBack{}, event.ReadBack{}},
		{&v1.Judgement{}, event.Judgement{}},
		{&v1.Gap{}, event.Gap{}},
	} {
		name := string(p.message.ProtoReflect().Descriptor().Name())
		if diff := cmp.Diff(members(reflect.TypeOf(p.format)), fields(p.message)); diff != "" {
			t.Errorf("%s (-format +schema):\n%s", name, diff)
		}
	}
}

// members are the JSON names of a struct's fields.
func members(typ reflect.Type) []string {
	var names []string
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// fields are the JSON names of a message's fields.
func fields(m proto.Message) []string {
	var names []string
	fs := m.ProtoReflect().Descriptor().Fields()
	for i := range fs.Len() {
		names = append(names, fs.Get(i).JSONName())
	}
	slices.Sort(names)
	return names
}
