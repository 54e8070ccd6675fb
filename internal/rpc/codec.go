package rpc

import (
	"fmt"
	"regexp"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// convert words an answer of the HTTP interface in a message of the schema, by
// the JSON that both have in common: the schema's test holds their members
// together.
func convert[M proto.Message](answer any, to M) (M, error) {
	b, err := json.Marshal(answer)
	if err == nil {
		err = protojson.Unmarshal(b, to)
	}
	if err != nil {
		return to, fmt.Errorf("word %T as %T: %w", answer, to, err)
	}
	return to, nil
}

// hasUnknown reports whether a message has fields that the schema does not know.
func hasUnknown(m protoreflect.Message) (found bool) {
	if len(m.GetUnknown()) > 0 {
		return true
	}
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap(): // maps of requests hold texts
		case f.IsList():
			for i := range v.List().Len() {
				found = found || hasUnknown(v.List().Get(i).Message())
			}
		default:
			found = hasUnknown(v.Message())
		}
		return !found
	})
	return found
}

// strictJSON is Connect's JSON without members that would be ignored.
type strictJSON struct{ name string }

// Name implements connect.Codec.
func (c strictJSON) Name() string { return c.name }

// Marshal implements connect.Codec.
func (c strictJSON) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return protojson.Marshal(m)
}

// Unmarshal implements connect.Codec. Its error names the place and quotes no
// value: that may be private.
func (c strictJSON) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	if err := protojson.Unmarshal(b, m); err != nil {
		return fmt.Errorf("not the JSON of %s: %s", m.ProtoReflect().Descriptor().Name(), place(err))
	}
	return nil
}

var placeOf = regexp.MustCompile(`\(line \d+:\d+\)(: (unknown field "\w{1,64}"|invalid value for \w+ field \w{1,64}))?`)

func place(err error) string {
	if p := placeOf.FindString(err.Error()); p != "" {
		return p
	}
	return "no valid JSON"
}
