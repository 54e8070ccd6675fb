package client

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"counterfoil/ledger/trust"
)

// vectorBytes joins the pieces of a published vector (testdata/vectors/README.md).
func vectorBytes(t *testing.T, parts map[string]string, list []jsontext.Value) string {
	t.Helper()
	var s strings.Builder
	for _, v := range list {
		var text string
		if v.Kind() == '"' {
			if err := json.Unmarshal(v, &text); err != nil {
				t.Fatal(err)
			}
			s.WriteString(text)
			continue
		}
		var o struct {
			Base64 string `json:"base64"`
			Repeat string `json:"repeat"`
			Times  int    `json:"times"`
			Use    string `json:"use"`
		}
		if err := json.Unmarshal(v, &o, json.RejectUnknownMembers(true)); err != nil {
			t.Fatal(err)
		}
		b, err := base64.StdEncoding.DecodeString(o.Base64)
		if err != nil {
			t.Fatal(err)
		}
		s.Write(b)
		s.WriteString(strings.Repeat(o.Repeat, o.Times) + parts[o.Use])
	}
	return s.String()
}

// TestLOG11_AnswerVectors reads the published answers of witnesses: for each key
// that a client may know, what the answer means to it.
func TestLOG11_AnswerVectors(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "vectors", "tlog", "add_checkpoint.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Parts      map[string]string  `json:"parts"`
		AnswerKeys [][]jsontext.Value `json:"answerKeys"`
		Checkpoint []jsontext.Value   `json:"checkpoint"`
		Answers    []struct {
			Rule        string           `json:"rule"`
			Status      int              `json:"status"`
			ContentType string           `json:"contentType"`
			Body        []jsontext.Value `json:"body"`
			Means       struct {
				Cosigned map[string]string `json:"cosigned"`
				Size     string            `json:"size"`
				Refused  string            `json:"refused"`
			} `json:"means"`
		} `json:"answers"`
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Answers) == 0 || len(doc.AnswerKeys) == 0 {
		t.Fatal("no answers or no keys")
	}
	n, err := trust.ParseNote([]byte(vectorBytes(t, doc.Parts, doc.Checkpoint)))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range doc.Answers {
		a := answer{status: c.Status, typ: c.ContentType, body: []byte(vectorBytes(t, doc.Parts, c.Body))}
		if c.Status == 409 {
			size, ok := sizeOf(a)
			if ok != (c.Means.Size != "") || ok && strconv.FormatUint(size, 10) != c.Means.Size {
				t.Errorf("%s: size %d, %v; want %q", c.Rule, size, ok, c.Means.Size)
			}
			continue
		}
		if c.Status != 200 {
			continue // refused by the status alone
		}
		for _, list := range doc.AnswerKeys {
			k, err := trust.ParseVerifierKey(vectorBytes(t, doc.Parts, list))
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			line, at, err := cosignatureOf(a.body, n.Text, k)
			if err == nil {
				got = strconv.FormatUint(at, 10)
				if _, ok := k.Verify(n.Text, line.Sig); !ok || line.Name != k.Name || line.ID != k.ID {
					t.Errorf("%s: the line that counts is not that of %s", c.Rule, k.Name)
				}
			}
			if want := c.Means.Cosigned[k.Name]; got != want {
				t.Errorf("%s: for %s %q, %v; want %q", c.Rule, k.Name, got, err, want)
			}
		}
	}
}
