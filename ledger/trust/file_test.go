package trust

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/canon"
)

func sampleFile(t testing.TB) *File {
	old, young := key("old", 0), key("new", 100)
	old.ToIndex, old.RevokedFromIndex = at(100), at(90)
	return &File{
		Log:       vkey(t, origin, TypeEd25519, "log"),
		EventKeys: must(NewEventKeys([]EventKey{young, old}))(t),
		Witnesses: []VerifierKey{vkey(t, "w2.example", TypeCosignature, "w2"), vkey(t, "w1.example", TypeCosignature, "w1"), vkey(t, "pq.example", TypeMLDSA44, "pq")},
		Quorum:    2,
	}
}

func TestATT09_TrustFileRoundTrip(t *testing.T) {
	full := sampleFile(t)
	small := &File{Log: full.Log, EventKeys: full.EventKeys}
	for name, f := range map[string]*File{"full": full, "small": small} {
		b := f.Append(nil)
		if err := (canon.Profile{MaxBytes: MaxFileBytes, MaxDepth: 8}).CheckCanonical(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got, err := Parse(b)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, b)
		}
		if again := got.Append(nil); string(again) != string(b) {
			t.Errorf("%s: comes back as %s", name, again)
		}
		if got.Origin() != origin || got.Quorum != f.Quorum || len(got.Witnesses) != len(f.Witnesses) || got.EventKeys.Len() != 2 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if strings.Contains(string(small.Append(nil)), "quorum") || strings.Contains(string(small.Append(nil)), "witnesses") {
		t.Errorf("empty members are written: %s", small.Append(nil))
	}
}

// People edit the file: white space and order are free, and an explicit zero
// quorum and an empty list of witnesses say what leaving them out says.
func TestATT09_TrustFileMayBeEdited(t *testing.T) {
	f := sampleFile(t)
	k := f.EventKeys.Keys()[0]
	edited := `
{
  "schemaVersion": "counterfoil.trust.v1",
  "quorum": 0,
  "witnesses": [],
  "log": {"vkey": "` + f.Log.String() + `", "origin": "` + origin + `"},
  "eventKeys": [ {"publicKey": "` + base64.StdEncoding.EncodeToString(k.PublicKey) + `",
	"fromIndex": 7, "keyId": "` + k.KeyID + `"} ]
}
`
	got, err := Parse([]byte(edited))
	if err != nil {
		t.Fatal(err)
	}
	if got.EventKeys.Keys()[0].FromIndex != 7 || got.Quorum != 0 || len(got.Witnesses) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestATT12_TrustFileIsStrict(t *testing.T) {
	good := string(sampleFile(t).Append(nil))
	log := vkey(t, origin, TypeEd25519, "log").String()
	w1 := vkey(t, "w1.example", TypeCosignature, "w1").String()
	replace := func(old, replacement string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the sample", old)
		}
		return strings.Replace(good, old, replacement, 1)
	}
	witness := func(v string) string { return replace(`"witnesses":[`, `"witnesses":[{"vkey":"`+v+`"},`) }
	for name, c := range map[string]struct{ file, want string }{
		"empty":                  {"", ""},
		"not JSON":               {"trust", ""},
		"cut":                    {good[:len(good)-1], ""},
		"two documents":          {good + good, ""},
		"array":                  {"[" + good + "]", ""},
		"null":                   {"null", "null"},
		"too large":              {good + strings.Repeat(" ", MaxFileBytes), "too_large"},
		"unknown member":         {replace(`"quorum"`, `"comment":"x","quorum"`), "comment"},
		"unknown member of key":  {replace(`"fromIndex"`, `"validUntil":"2027","fromIndex"`), "validUntil"},
		"other case":             {replace(`"quorum"`, `"Quorum"`), "Quorum"},
		"duplicate":              {replace(`"quorum":2`, `"quorum":2,"quorum":1`), "duplicate"},
		"duplicate by escape":    {replace(`"quorum":2`, `"quorum":2,"\u0071uorum":1`), "duplicate"},
		"schema of tomorrow":     {replace("trust.v1", "trust.v2"), "schemaVersion"},
		"no schema":              {replace(`"schemaVersion":"counterfoil.trust.v1",`, ""), "schemaVersion"},
		"no log":                 {replace(`"log":{"origin":"`+origin+`","vkey":"`+log+`"},`, ""), "/log"},
		"no origin":              {replace(`"origin":"`+origin+`",`, ""), "/log"},
		"origin of another":      {replace(`"origin":"`+origin+`"`, `"origin":"other.example"`), "/log/origin"},
		"bad vkey":               {replace(log, "x"+log), "/log/vkey"},
		"log signs as a witness": {replace(log, vkey(t, origin, TypeCosignature, "log").String()), "log key"},
		"no event keys member":   {`{"log":{"origin":"` + origin + `","vkey":"` + log + `"},"schemaVersion":"counterfoil.trust.v1"}`, "/eventKeys"},
		"no event keys":          {`{"eventKeys":[],"log":{"origin":"` + origin + `","vkey":"` + log + `"},"schemaVersion":"counterfoil.trust.v1"}`, "no event key"},
		"no from":                {replace(`"fromIndex":0,`, ""), "/eventKeys/"},
		"null to":                {replace(`"toIndex":100`, `"toIndex":null`), "null"},
		"index as a string":      {replace(`"fromIndex":0`, `"fromIndex":"0"`), "fromIndex"},
		"index as a float":       {replace(`"fromIndex":0`, `"fromIndex":0.0`), "float"},
		"negative index":         {replace(`"fromIndex":0`, `"fromIndex":-1`), "fromIndex"},
		"index beyond 2^53":      {replace(`"toIndex":100`, `"toIndex":9007199254740992`), "integer_too_large"},
		"other key id":           {replace(`"keyId":"ed25519:`, `"keyId":"ed25519:0`), "keyId"},
		"key of 31 bytes":        {replace(base64.StdEncoding.EncodeToString(publicOf("old")), base64.StdEncoding.EncodeToString(publicOf("old")[:31])), "31 bytes"},
		"key with line break":    {replace(`"publicKey":"`, `"publicKey":"\n`), "publicKey"},
		"quorum over witnesses":  {replace(`"quorum":2`, `"quorum":4`), "quorum 4 of 3"},
		"negative quorum":        {replace(`"quorum":2`, `"quorum":-1`), "quorum"},
		"huge quorum":            {replace(`"quorum":2`, `"quorum":9007199254740991`), "quorum"},
		"witness twice":          {witness(w1), "same public key"},
		"witness by two names":   {witness(vkey(t, "other.example", TypeCosignature, "w1").String()), "same public key"},
		"name by two witnesses":  {witness(vkey(t, "w1.example", TypeCosignature, "w9").String()), "twice"},
		"log as witness":         {witness(vkey(t, "other.example", TypeCosignature, "log").String()), "log itself"},
		"witness signs as a log": {witness(vkey(t, "w9.example", TypeEd25519, "w9").String()), "witness key"},
		"witness without key":    {replace(`"witnesses":[`, `"witnesses":[{},`), "/witnesses/0"},
		"too many witnesses":     {replace(`"witnesses":[`, `"witnesses":[`+strings.Repeat(`{"vkey":"x"},`, MaxWitnesses)), "limit 64"},
	} {
		_, err := Parse([]byte(c.file))
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want ErrFile with %q", name, err, c.want)
		}
	}
}

func FuzzTrustFile(f *testing.F) {
	seeds.Add(f, "trust.json")
	f.Add(sampleFile(f).Append(nil))
	f.Add([]byte(`{"schemaVersion":"counterfoil.trust.v1"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Parse(b)
		if err != nil {
			if !errors.Is(err, ErrFile) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		one := file.Append(nil)
		again, err := Parse(one)
		if err != nil {
			t.Fatalf("%q is written as %q: %v", b, one, err)
		}
		if two := again.Append(nil); string(two) != string(one) {
			t.Fatalf("%q comes back as %q", one, two)
		}
	})
}
