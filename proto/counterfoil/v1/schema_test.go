package counterfoilv1_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"counterfoil/internal/api"
	"counterfoil/ledger/event"
	"counterfoil/ledger/receipt"
	"counterfoil/ledger/trust"
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
		{&v1.Receipt{}, api.Receipt{}},
		{&v1.ReceiptAction{}, api.ReceiptAction{}},
		{&v1.ReceiptSource{}, api.ReceiptSource{}},
		{&v1.ReceiptCommitment{}, api.Commitment{}},
		{&v1.Opening{}, api.Opening{}},
		{&v1.Witnesses{}, api.Witnesses{}},
		{&v1.Attempt{}, api.Attempt{}},
		{&v1.AttemptSummary{}, api.AttemptSummary{}},
		{&v1.StreamEventsResponse{}, api.StreamedEvent{}},
		{&v1.ErrorDetail{}, api.Error{}},
		{&v1.Status{}, api.Status{}},
		{&v1.Check{}, api.Check{}},
		{&v1.ParkedLeaf{}, api.ParkedLeaf{}},
	} {
		name := string(p.message.ProtoReflect().Descriptor().Name())
		if diff := cmp.Diff(members(reflect.TypeOf(p.format)), fields(p.message)); diff != "" {
			t.Errorf("%s (-format +schema):\n%s", name, diff)
		}
	}
}

// What has an encoder of its own is read back with the schema: it must know every
// member, and each must have the type that it says.
func TestSchemaReadsWhatTheCodecWrites(t *testing.T) {
	for _, leaf := range leaves(t) {
		if err := protojson.Unmarshal(leaf, new(v1.Record)); err != nil {
			t.Errorf("record: %v\n%s", err, leaf)
		}
	}
	if err := protojson.Unmarshal(trustFile(t), new(v1.TrustFile)); err != nil {
		t.Errorf("trust file: %v", err)
	}
	for _, leaf := range leaves(t) {
		b := bundle(t, leaf)
		if err := protojson.Unmarshal(b, new(v1.Bundle)); err != nil {
			t.Errorf("bundle: %v\n%s", err, b)
		}
	}
}

// leaves are the accepted leaves of the vectors.
func leaves(t *testing.T) [][]byte {
	t.Helper()
	b, err := os.ReadFile("../../../testdata/vectors/leaf.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors struct{ Accept []struct{ Leaf string } }
	if err := json.Unmarshal(b, &vectors); err != nil {
		t.Fatal(err)
	}
	var leaves [][]byte
	for _, v := range vectors.Accept {
		leaves = append(leaves, []byte(v.Leaf))
	}
	if len(leaves) == 0 {
		t.Fatal("no accepted leaf")
	}
	return leaves
}

// key is the public key of RFC 8032's first test.
const key = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"

// trustFile has every optional member.
func trustFile(t *testing.T) []byte {
	t.Helper()
	pub, err := hex.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	cosigner := append([]byte{0x04}, pub...)
	hash := sha256.Sum256(append([]byte("example.com/witness\n"), cosigner...))
	doc := fmt.Sprintf(`{"eventKeys":[{"fromIndex":0,"keyId":"ed25519:%x","publicKey":%q,"revokedFromIndex":7,"toIndex":9}],`+
		`"log":{"origin":"example.com/foo","vkey":"example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"},`+
		`"quorum":1,"schemaVersion":"counterfoil.trust.v1","witnesses":[{"vkey":"example.com/witness+%x+%s"}]}`,
		sha256.Sum256(pub), base64.StdEncoding.EncodeToString(pub), hash[:4], base64.StdEncoding.EncodeToString(cosigner))
	f, err := trust.Parse([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	out := f.Append(nil)
	if string(out) != doc {
		t.Fatalf("trust file is written in another way than it was read:\n%s\n%s", out, doc)
	}
	return out
}

// bundle holds one leaf under a checkpoint of two. Its proof is of the right
// length and of nothing.
func bundle(t *testing.T, leaf []byte) []byte {
	t.Helper()
	rec, err := event.ParseRecord(leaf)
	if err != nil {
		t.Fatal(err)
	}
	zero := make([]byte, 32)
	note := fmt.Sprintf("%s\n2\n%s\n\n\u2014 %[1]s %s\n", rec.Event.Ledger,
		base64.StdEncoding.EncodeToString(zero), base64.StdEncoding.EncodeToString(make([]byte, 68)))
	b, err := receipt.Build([]receipt.Entry{{Record: rec, LeafIndex: 1, Proof: [][]byte{zero}}}, []byte(note))
	if err != nil {
		t.Fatal(err)
	}
	return b
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
