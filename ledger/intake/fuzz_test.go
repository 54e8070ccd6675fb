package intake

import (
	"errors"
	"strings"
	"testing"

	"counterfoil/internal/testkit/seeds"
)

// Whatever is sent is taken or refused by name, and means the same every time.
func FuzzEVI06_Requests(f *testing.F) {
	seeds.Add(f, "request.json", "commit.json")
	f.Fuzz(func(t *testing.T, body []byte) {
		checkRefusal := func(err error) bool {
			var re *RequestError
			if err != nil && !errors.As(err, &re) {
				t.Fatalf("untyped refusal %v", err)
			}
			if re != nil && (re.Detail == "" || re.Path != "" && !strings.HasPrefix(re.Path, "/")) {
				t.Fatalf("refusal %+v", re)
			}
			return err == nil
		}
		b, err := ParseBegin(body)
		if checkRefusal(err) {
			again, err := ParseBegin(body)
			if err != nil || string(again.canonical) != string(b.canonical) {
				t.Fatalf("read twice: %q and %q, %v", b.canonical, again.canonical, err)
			}
		}
		a, err := ParseAppend(body, "")
		if checkRefusal(err) {
			again, err := ParseAppend(body, a.AttemptID)
			if err != nil || string(again.canonical) != string(a.canonical) {
				t.Fatalf("read with the id in the path: %q and %q, %v", a.canonical, again.canonical, err)
			}
		}
	})
}
