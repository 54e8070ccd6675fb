"""canonical_json.json"""
import json

from formats import canonical

from .common import b64

BOTH = ("restricted", "private")

# rule, profiles, input, canonical form (written by hand, or taken from RFC 8785)
ACCEPT = [
    ("members are sorted, white space goes", BOTH, '{ "b" : 2,\n"a":[ 1 ,\ttrue,null\r] }', '{"a":[1,true,null],"b":2}'),
    ("any value is a document", BOTH, ' "a" ', '"a"'),
    ("any value is a document: number", BOTH, "0", "0"),
    ("empty object", BOTH, "{ }", "{}"),
    ("empty array", BOTH, "[\n]", "[]"),
    ("empty name", BOTH, '{"":1}', '{"":1}'),
    ("names sort by UTF-16 code units (RFC 8785, 3.2.3)", BOTH,
     '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",'
     '"\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}',
     '{"\\r":"Carriage Return","1":"One","\x80":"Control","\xf6":"Latin Small Letter O With Diaeresis","\u20ac":"Euro Sign",'
     '"\U0001f600":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}'),
    ("a surrogate pair sorts before U+FB33", BOTH, '{"\ufb33":1,"\U0001f600":2}', '{"\U0001f600":2,"\ufb33":1}'),
    ("a shorter name sorts first", BOTH, '{"aa":1,"a":2,"":3}', '{"":3,"a":2,"aa":1}'),
    ("upper case sorts before lower case", BOTH, '{"a":1,"B":2}', '{"B":2,"a":1}'),
    ("nested objects are sorted too", BOTH, '[{"b":{"d":1,"c":2},"a":3}]', '[{"a":3,"b":{"c":2,"d":1}}]'),
    ("NFC and NFD stay different names", BOTH, '{"e\u0301":1,"\u00e9":2}', '{"e\u0301":1,"\u00e9":2}'),
    ("escapes become characters, slash stays bare", BOTH, '["\\u0041\\/\\u20ac"]', '["A/\u20ac"]'),
    ("control characters have their short escape, or four lower-case digits", BOTH,
     '["\\u0000\\u0008\\u0009\\u000A\\u000b\\u000C\\u000D\\u001F"]', '["\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f"]'),
    ("quote and backslash", BOTH, '["\\u0022\\u005c"]', '["\\"\\\\"]'),
    ("DEL, C1 controls and line separators stay bare", BOTH, '["\\u007f\\u0080\\u2028\\u2029"]', '["\x7f\x80\u2028\u2029"]'),
    ("escaped surrogate pair", BOTH, '["\\uD83D\\uDE00"]', '["\U0001f600"]'),
    ("characters of HTML stay bare", BOTH, '["<script>&"]', '["<script>&"]'),
    ("largest and smallest integer", BOTH, "[9007199254740991,-9007199254740991]", "[9007199254740991,-9007199254740991]"),
    ("an escaped name equals the same name written out", BOTH, '{"\\u0061":1}', '{"a":1}'),
    ("32 levels", BOTH, "[" * 32 + "]" * 32, "[" * 32 + "]" * 32),
    ("512 levels", ("private",), "[" * 512 + "]" * 512, "[" * 512 + "]" * 512),
    ("noncharacter in a private value", ("private",), '["\\ufffe\\ufdd0\\udbff\\udfff"]', '["\ufffe\ufdd0\U0010ffff"]'),
    ("minus zero is zero", ("private",), "[-0,-0.0,0e5,0.000]", "[0,0,0,0]"),
    ("trailing zeros go", ("private",), "[1.50,4.50,100.0]", "[1.5,4.5,100]"),
    ("exponents from 21 digits on", ("private",), "[1e21,1E+30,-1e21]", "[1e+21,1e+30,-1e+21]"),
    ("exponents below 0.000001", ("private",), "[0.000001,1e-6,1e-7,0.00000012]", "[0.000001,0.000001,1e-7,1.2e-7]"),
    ("exponent folded into digits", ("private",), "[12e-1,2e-3,1e2,123456789.0]", "[1.2,0.002,100,123456789]"),
    ("shortest digits of the double (RFC 8785, appendix B)", ("private",),
     "[5e-324,-5e-324,1.7976931348623157e308,-1.7976931348623157e308,9.999999999999997e22,1e23,1.0000000000000001e23]",
     "[5e-324,-5e-324,1.7976931348623157e+308,-1.7976931348623157e+308,9.999999999999997e+22,1e+23,1.0000000000000001e+23]"),
    ("shortest digits, more (RFC 8785, appendix B)", ("private",),
     "[9.999999999999997e-7,333333333.3333332,333333333.33333325,333333333.3333333,333333333.3333334,333333333.33333343,"
     "-0.0000033333333333333333,1424953923781206.2]",
     "[9.999999999999997e-7,333333333.3333332,333333333.33333325,333333333.3333333,333333333.3333334,333333333.33333343,"
     "-0.0000033333333333333333,1424953923781206.2]"),
]

# rule, profiles, input (text or bytes), reason, path (None: not compared)
REJECT = [
    ("a name twice", BOTH, '{"amount":1,"amount":1000}', "duplicate_member", "/amount"),
    ("a name twice, once by escape", BOTH, '{"amount":1,"\\u0061mount":1000}', "duplicate_member", "/amount"),
    ("a name twice, deep down", BOTH, '[{"a":[{"b":1,"b":1}]}]', "duplicate_member", "/0/a/0/b"),
    ("a name with slash and tilde twice: the path escapes them", BOTH, '{"a/~":1,"a/~":1}', "duplicate_member", "/a~1~0"),
    ("integer beyond 2^53-1", BOTH, '{"a":{"amount_minor":9007199254740993}}', "integer_too_large", "/a/amount_minor"),
    ("2^53", BOTH, "[9007199254740992]", "integer_too_large", "/0"),
    ("-2^53", BOTH, "[-9007199254740992]", "integer_too_large", "/0"),
    ("thirty digits", BOTH, "[123456789012345678901234567890]", "integer_too_large", "/0"),
    ("fraction", ("restricted",), '{"x":1.5}', "float_not_allowed", "/x"),
    ("integer with a fraction of zero", ("restricted",), '{"x":1.0}', "float_not_allowed", "/x"),
    ("exponent", ("restricted",), '{"x":1e2}', "float_not_allowed", "/x"),
    ("minus zero", ("restricted",), '{"x":-0}', "negative_zero", "/x"),
    ("more digits than a double carries", ("private",), "[0.1000000000000000055]", "number_not_exact", "/0"),
    ("seventeen digits that are not the shortest", ("private",), "[333333333.33333329]", "number_not_exact", "/0"),
    ("beyond the largest double", ("private",), "[1e400]", "number_not_exact", "/0"),
    ("below the smallest double", ("private",), "[1e-400]", "number_not_exact", "/0"),
    ("odd double beyond 2^53", ("private",), "[9007199254740993.0]", "number_not_exact", "/0"),
    ("double that canonical form writes as a big integer", ("private",), "[1e20]", "integer_too_large", "/0"),
    ("2^53 as a double", ("private",), "[9007199254740992.0]", "integer_too_large", "/0"),
    ("swapped surrogates", BOTH, '["\\ude00\\ud83d"]', "invalid_utf8", None),
    ("lone high surrogate", BOTH, '["\\ud83d"]', "invalid_utf8", None),
    ("lone high surrogate before a character", BOTH, '["\\ud83dx"]', "invalid_utf8", None),
    ("two high surrogates", BOTH, '["\\ud83d\\ud83d"]', "invalid_utf8", None),
    ("lone surrogate in a name", BOTH, '{"\\ud800":1}', "invalid_utf8", None),
    ("byte 0xff", BOTH, b'["\xff"]', "invalid_utf8", None),
    ("surrogate as UTF-8", BOTH, b'["\xed\xa0\x80"]', "invalid_utf8", None),
    ("overlong UTF-8", BOTH, b'["\xc0\xaf"]', "invalid_utf8", None),
    ("UTF-8 cut short", BOTH, b'["\xe2\x82"]', "invalid_utf8", None),
    ("noncharacter U+FFFE", ("restricted",), '["\ufffe"]', "noncharacter", "/0"),
    ("noncharacter U+FDD0 by escape", ("restricted",), '["\\ufdd0"]', "noncharacter", "/0"),
    ("noncharacter U+10FFFF", ("restricted",), '["\U0010ffff"]', "noncharacter", "/0"),
    ("noncharacter in a name", ("restricted",), '{"\uffff":1}', "noncharacter", None),
    ("33 levels", ("restricted",), "[" * 33 + "]" * 33, "too_deep", None),
    ("33 levels of objects", ("restricted",), '{"a":' * 33 + "1" + "}" * 33, "too_deep", None),
    ("513 levels", ("private",), "[" * 513 + "]" * 513, "too_deep", None),
    ("two values", BOTH, "{} {}", "invalid_json", None),
    ("bytes after the value", BOTH, "{}x", "invalid_json", None),
    ("comma after the last element", BOTH, "[1,]", "invalid_json", None),
    ("comma after the last member", BOTH, '{"a":1,}', "invalid_json", None),
    ("cut short", BOTH, '{"a":', "invalid_json", None),
    ("no bytes", BOTH, "", "invalid_json", None),
    ("white space alone", BOTH, " \n", "invalid_json", None),
    ("byte order mark", BOTH, "\ufeff{}", "invalid_json", None),
    ("leading zero", BOTH, "[01]", "invalid_json", None),
    ("leading plus", BOTH, "[+1]", "invalid_json", None),
    ("fraction without digits", BOTH, "[1.]", "invalid_json", None),
    ("fraction without a whole part", BOTH, "[.5]", "invalid_json", None),
    ("exponent without digits", BOTH, "[1e]", "invalid_json", None),
    ("hexadecimal", BOTH, "[0x10]", "invalid_json", None),
    ("NaN", BOTH, "[NaN]", "invalid_json", None),
    ("Infinity", BOTH, "[-Infinity]", "invalid_json", None),
    ("upper-case word", BOTH, "[True]", "invalid_json", None),
    ("name without quotes", BOTH, "{a:1}", "invalid_json", None),
    ("single quotes", BOTH, "['a']", "invalid_json", None),
    ("name that is no string", BOTH, "{1:1}", "invalid_json", None),
    ("unknown escape", BOTH, '["\\x41"]', "invalid_json", None),
    ("bare control character", BOTH, '["\n"]', "invalid_json", None),
    ("bare NUL", BOTH, '["\x00"]', "invalid_json", None),
    ("comment", BOTH, "[1/**/]", "invalid_json", None),
    ("other white space", BOTH, "[\u00a01]", "invalid_json", None),
    ("brackets that do not match", BOTH, "[}", "invalid_json", None),
    ("no colon", BOTH, '{"a" 1}', "invalid_json", None),
    ("no comma", BOTH, "[1 2]", "invalid_json", None),
]

# Inputs over the byte limit: prefix, one repeated byte, suffix.
SIZES = [
    ("32,768 bytes", "restricted", '"', "x", 32766, '"', None),
    ("32,769 bytes", "restricted", '"', "x", 32767, '"', "too_large"),
    ("white space counts", "restricted", "1", " ", 32768, "", "too_large"),
    ("32,769 bytes", "private", '"', "x", 32767, '"', None),
    ("16 MiB and one byte", "private", '"', "x", (16 << 20) - 1, '"', "too_large"),
]


def make():
    accept, reject, sizes = [], [], []
    for rule, profiles, given, want in ACCEPT:
        for p in profiles:
            got = canonical.canonical(given.encode("utf-8"), canonical.PROFILES[p]).decode()
            assert got == want, f"{rule}: {got} != {want}"
        accept.append({"rule": rule, "profiles": list(profiles), "input": given, "canonical": want})
    for rule, profiles, given, reason, path in REJECT:
        raw = given if isinstance(given, bytes) else given.encode("utf-8")
        case = {"rule": rule, "profiles": list(profiles), "inputBase64": b64(raw), "reason": reason}
        if path is not None:
            case["path"] = path
        reject.append(case)
    for rule, p, prefix, unit, times, suffix, reason in SIZES:
        sizes.append({"rule": rule, "profile": p, "prefix": prefix, "unit": unit, "times": times, "suffix": suffix, "reason": reason})
    return {
        "description": "Canonical JSON. accept: input and canonical are text, their bytes are UTF-8. reject: input as base64, with the reason "
                       "code and, where it is given, the JSON pointer of the refused value. size: prefix, times × unit, suffix; a reason "
                       "of null is accepted. Every case holds for each of its profiles. Rules: docs/spec/event.md, Canonical JSON.",
        "accept": accept, "reject": reject, "size": sizes,
    }


if __name__ == "__main__":
    print(json.dumps(make(), indent=1))
