package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"testing"
)

func TestPRV08_TheSearchFindsEverySpelling(t *testing.T) {
	const canary = "CANARY-7f3a9c51e2"
	quoted, _ := json.Marshal(map[string]string{"a": canary})
	hidden := map[string][]byte{
		"clear":  []byte("before " + canary + " after"),
		"JSON":   quoted,
		"hex":    []byte(hex.EncodeToString([]byte("x" + canary + "y"))),
		"UTF-16": []byte("C\x00A\x00N\x00A\x00R\x00Y\x00-\x007\x00f\x003\x00a\x009\x00c\x005\x001\x00e\x002\x00"),
	}
	for _, before := range []string{"", "a", "ab", "abc"} {
		for _, after := range []string{"", "z", "zz"} {
			hidden["base64 after "+before+" before "+after] = []byte(base64.StdEncoding.EncodeToString([]byte(before + canary + after)))
		}
	}
	for name, b := range hidden {
		found := false
		for _, n := range spellings(canary) {
			found = found || bytes.Contains(b, n)
		}
		if !found {
			t.Errorf("%s: %s is not found", name, b)
		}
	}
	for _, n := range spellings(canary) {
		if len(n) < 12 {
			t.Errorf("%q is so short that it finds anything", n)
		}
	}
}
