package canon

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"pgregory.net/rapid"
)

func TestATT06_RestrictedRefusals(t *testing.T) {
	deep := strings.Repeat("[", 33) + strings.Repeat("]", 33)
	for _, c := range []struct{ name, in, reason, path string }{
		{"duplicate", `{"amount":1,"amount":1000}`, ReasonDuplicate, "/amount"},
		{"duplicate by escape", `{"amount":1,"\u0061mount":1000}`, ReasonDuplicate, "/amount"},
		{"big integer", `{"a":{"amount_minor":9007199254740993}}`, ReasonBigInteger, "/a/amount_minor"},
		{"2^53", `[9007199254740992]`, ReasonBigInteger, "/0"},
		{"huge integer", `[123456789012345678901234567890]`, ReasonBigInteger, "/0"},
		{"negative big", `[-9007199254740992]`, ReasonBigInteger, "/0"},
		{"float", `{"x":1.5}`, ReasonFloat, "/x"},
		{"float spelled integer", `{"x":1.0}`, ReasonFloat, "/x"},
		{"exponent", `{"x":1e2}`, ReasonFloat, "/x"},
		{"negative zero", `{"x":-0}`, ReasonNegativeZero, "/x"},
		{"swapped surrogates", `["\ude00\ud83d"]`, ReasonUTF8, ""},
		{"lone surrogate in a name", `{"\ud800":1}`, ReasonUTF8, ""},
		{"raw 0xff", "[\"\xff\"]", ReasonUTF8, ""},
		{"noncharacter", "[\"\uFFFE\"]", ReasonNoncharacter, "/0"},
		{"depth 33", deep, ReasonTooDeep, ""},
		{"trailing", `{} {}`, ReasonSyntax, ""},
		{"trailing comma", `[1,]`, ReasonSyntax, ""},
		{"cut", `{"a":`, ReasonSyntax, ""},
		{"empty", ``, ReasonSyntax, ""},
		{"leading zero", `[01]`, ReasonSyntax, ""},
		{"NaN", `[NaN]`, ReasonSyntax, ""},
		{"byte order mark", "\uFEFF{}", ReasonSyntax, ""},
		{"too large", `"` + strings.Repeat("x", 32<<10) + `"`, ReasonTooLarge, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Restricted.Canonical([]byte(c.in))
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Reason != c.reason || (c.path != "" && e.Path != c.path) {
				t.Errorf("got %s at %q, want %s at %q (%v)", e.Reason, e.Path, c.reason, c.path, err)
			}
		})
	}
}

func TestATT05_Canonical(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"order and space", "{ \"b\" : 2,\n\"a\":[ 1 , true,null ] }", `{"a":[1,true,null],"b":2}`},
		{"emoji sorts before U+FB33 by UTF-16", `{"\ufb33":1,"😀":2}`, "{\"\U0001F600\":2,\"\uFB33\":1}"},
		{"NFC and NFD stay different", "{\"e\u0301\":1,\"\u00e9\":2}", "{\"e\u0301\":1,\"\u00e9\":2}"},
		{"escapes", `["\u0041\/\u000a\u001f\u20ac"]`, "[\"A/\\n\\u001f€\"]"},
		{"limits", `[9007199254740991,-9007199254740991]`, `[9007199254740991,-9007199254740991]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Restricted.Canonical([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s, %v; want %s", got, err, c.want)
			}
			if err := Restricted.CheckCanonical(got); err != nil {
				t.Errorf("canonical form is refused: %v", err)
			}
			if c.in != c.want {
				var e *Error
				if err := Restricted.CheckCanonical([]byte(c.in)); !errors.As(err, &e) || e.Reason != ReasonNotCanonical {
					t.Errorf("second spelling: got %v, want %s", err, ReasonNotCanonical)
				}
			}
		})
	}
}

func TestEVI13_PrivateNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"1.50": "1.5", "1e21": "1e+21", "0.1": "0.1", "-0": "0", "1E-7": "1e-7", "4.50": "4.5",
		"333333333.33333329": "333333333.3333333", // same double, but digits beyond it
		"9007199254740993.0": "", "1e20": "", "1e400": "", "12345678901234567890": "", "0.1000000000000000055": "",
		"123456789.0": "123456789", "1.7976931348623157e308": "1.7976931348623157e+308", "5e-324": "5e-324",
	} {
		got, err := Private.Canonical([]byte(in))
		if in == "333333333.33333329" {
			want = "" // seventeen digits that the shortest form does not repeat
		}
		if want == "" {
			if err == nil {
				t.Errorf("%s: got %s, want a refusal", in, got)
			}
			continue
		}
		if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestTRS27_DeepInputIsRefusedBeforeParsing(t *testing.T) {
	for _, p := range []Profile{Restricted, Private} {
		var e *Error
		if err := p.Check([]byte(strings.Repeat("[", 4096))); !errors.As(err, &e) || e.Reason != ReasonTooDeep {
			t.Errorf("4,096 levels: got %v, want %s", err, ReasonTooDeep)
		}
	}
}

func TestATT05_CanonicalIsAFixedPoint(t *testing.T) {
	value := jsonValue(3)
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		raw, err := json.Marshal(v)
		if err != nil {
			t.Skip()
		}
		once, err := Private.Canonical(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		twice, err := Private.Canonical(once)
		if err != nil || string(once) != string(twice) {
			t.Fatalf("once %s, twice %s, %v", once, twice, err)
		}
	})
}

func jsonValue(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Map(rapid.String(), func(s string) any { return s }),
		rapid.Map(rapid.Int64Range(-MaxSafeInteger, MaxSafeInteger), func(n int64) any { return n }),
		rapid.Map(rapid.Float64().Filter(func(f float64) bool { return math.Abs(f) <= MaxSafeInteger || math.Abs(f) >= 1e21 }), func(f float64) any { return f }),
		rapid.Just[any](nil), rapid.Just[any](true))
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.Map(rapid.SliceOfN(rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) }), 0, 4), func(s []any) any { return s }),
		rapid.Map(rapid.MapOfN(rapid.String(), rapid.Deferred(func() *rapid.Generator[any] { return jsonValue(depth - 1) }), 0, 4), func(m map[string]any) any { return m }))
}

func FuzzCanonical(f *testing.F) {
	seeds.Add(f, "canonical_json.json")
	for _, s := range []string{`{"a":1}`, `["\ud83d\ude00"]`, `{"b":[1,2,{"c":null}],"a":-5}`, `1e5`, `"\u0000"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, p := range []Profile{Restricted, Private} {
			out, err := p.Canonical(in)
			if err != nil {
				var e *Error
				if !errors.As(err, &e) {
					t.Fatalf("error of type %T: %v", err, err)
				}
				continue
			}
			if again, err := (Profile{MaxBytes: 1 << 30, MaxDepth: p.MaxDepth, Floats: p.Floats, Noncharacters: p.Noncharacters}).Canonical(out); err != nil || string(again) != string(out) {
				t.Fatalf("not a fixed point: %q then %q, %v", out, again, err)
			}
		}
	})
}

func BenchmarkCanonical(b *testing.B) {
	in := []byte(`{"source":{"runtimeId":"runtime:any","agentId":"agent:any","invocationId":"invocation-001","protocol":"mcp","implementation":"x"},"occurredAt":"2026-07-28T00:00:00.000Z","traceId":"trace-001","action":{"name":"external_tool_call","effectKind":"org.example/declared-effect","effectMode":"one_time"},"privateInput":{"callerDefined":"opaque value"}}`)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := Private.Canonical(in); err != nil {
			b.Fatal(err)
		}
	}
}
