package rule

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"counterfoil/internal/testkit/seeds"
	"counterfoil/ledger/trust"
)

func TestLOG10_RequestOfTheSpecification(t *testing.T) {
	// The example of tlog-witness.
	body := "old 20852014\n" +
		"PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=\n" +
		"jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=\n" +
		"5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=\n" +
		"/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=\n\n" +
		"example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n" +
		"— example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n" +
		"— example.com/behind-the-sofa opLqBQsREYCgu6xQkYQwJr9fo45a62DN9EdmHXnZdXNqlcVGlCum2Wks+49/V6267UEjw6QUXTS5Rovnzv++qbSzm9Q=\n"
	r, err := ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if r.Old != 20852014 || len(r.Proof) != 4 || r.Checkpoint.Size != 20852163 || len(r.Note.Signatures) != 2 {
		t.Errorf("read as %+v", r)
	}
	if got := string(r.Append(nil)); got != body {
		t.Errorf("written back as %q", got)
	}
}

func TestLOG10_RequestRefusesEverySecondSpelling(t *testing.T) {
	log := newSigner(t, origin, "log")
	x := newTree(9, plainLeaf)
	good := string(request(t, 4, x.proof(t, 4, 9), x.checkpoint(9), log).Append(nil))
	if _, err := ParseRequest([]byte(good)); err != nil {
		t.Fatal(err)
	}
	hash := base64.StdEncoding.EncodeToString(make([]byte, HashSize)) + "\n"
	swap := func(old, with string) string {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("%q is not in the request", old)
		}
		return strings.Replace(good, old, with, 1)
	}
	for name, body := range map[string]string{
		"empty":                       "",
		"no newline":                  "old 4",
		"only the old line":           "old 4\n",
		"leading zero":                swap("old 4\n", "old 04\n"),
		"plus sign":                   swap("old 4\n", "old +4\n"),
		"negative":                    swap("old 4\n", "old -4\n"),
		"no size":                     swap("old 4\n", "old \n"),
		"two spaces":                  swap("old 4\n", "old  4\n"),
		"blank behind":                swap("old 4\n", "old 4 \n"),
		"capital":                     swap("old 4\n", "Old 4\n"),
		"beyond 64 bits":              swap("old 4\n", "old 18446744073709551616\n"),
		"hexadecimal":                 swap("old 4\n", "old 0x4\n"),
		"CR LF":                       strings.ReplaceAll(good, "\n", "\r\n"),
		"CR in the old line":          swap("old 4\n", "old 4\r\n"),
		"64 proof lines":              swap("old 4\n", "old 4\n"+strings.Repeat(hash, 64)),
		"short hash":                  swap("old 4\n", "old 4\nAAAA\n"),
		"no padding":                  swap("old 4\n", "old 4\n"+strings.TrimRight(hash, "=\n")+"\n"),
		"trailing bits":               swap("old 4\n", "old 4\n"+strings.Replace(hash, "A=", "B=", 1)),
		"URL alphabet":                swap("old 4\n", "old 4\n"+strings.Replace(hash, "A", "_", 1)),
		"no blank line":               swap("\n\n"+origin, "\n"+origin),
		"two blank lines":             swap("\n\n"+origin, "\n\n\n"+origin),
		"size with leading zero":      swap("\n9\n", "\n09\n"),
		"no last newline":             strings.TrimSuffix(good, "\n"),
		"text behind":                 good + "more\n",
		"blank line behind":           good + "\n",
		"no signature":                good[:strings.Index(good, "— ")],
		"empty extension line":        swap("\n9\n", "\n9\n\n"),
		"NUL":                         swap(origin, "\x00"),
		"invalid UTF-8":               swap(origin, "\xff"),
		"1,000 signature lines":       good + strings.Repeat("— x AAAAAAAA\n", 1000),
		"line of a megabyte":          swap("old 4\n", "old "+strings.Repeat("4", 1<<20)+"\n"),
		"above the limit":             good + strings.Repeat("— x "+strings.Repeat("AAAA", 2000)+"\n", 90),
		"text before":                 "\n" + good,
		"proof line with blank":       swap("old 4\n", "old 4\n "+hash),
		"proof line broken by return": swap("old 4\n", "old 4\n"+hash[:8]+"\r"+hash[8:]),
	} {
		if _, err := ParseRequest([]byte(body)); !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestLOG10_RequestWithManyLargeSignaturesFits(t *testing.T) {
	log := newSigner(t, origin, "log")
	r := request(t, 0, nil, newTree(5, plainLeaf).checkpoint(5), log)
	for range 16 {
		r.Note.Signatures = append(r.Note.Signatures, trust.NoteSignature{Name: "pq.example", ID: 7, Sig: make([]byte, 5000)})
	}
	b := r.Append(nil)
	if len(b) < 100<<10 {
		t.Fatalf("%d bytes try nothing", len(b))
	}
	if _, err := ParseRequest(b); err != nil {
		t.Error(err)
	}
}

func FuzzParseRequest(f *testing.F) {
	seeds.Add(f, "tlog/add_checkpoint.json")
	log := newSigner(f, origin, "log")
	x := newTree(9, plainLeaf)
	f.Add(request(f, 4, x.proof(f, 4, 9), x.checkpoint(9), log).Append(nil))
	f.Add(request(f, 0, nil, x.checkpoint(0), log).Append(nil))
	f.Add([]byte("old 4\n\na\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := ParseRequest(b)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Errorf("untyped error %v", err)
			}
			return
		}
		if !bytes.Equal(r.Append(nil), b) {
			t.Errorf("%q is written back otherwise", b)
		}
		_ = Decide([]trust.VerifierKey{log.key}, x.state(4), r)
	})
}
