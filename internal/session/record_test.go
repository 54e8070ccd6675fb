package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"counterfoil/ledger/client"
)

// memory is a ledger that remembers what it was told, by source ids.
type memory struct {
	index map[string]uint64
	said  []string // every call: kind, id, stage
	fail  int      // the number of the call that fails
}

var errFull = errors.New("full")

func (m *memory) put(id string, wait client.Stage, attempt string) (*client.Answer[client.Receipt], error) {
	m.said = append(m.said, fmt.Sprintf("%s %s", id, wait))
	if len(m.said) == m.fail {
		return nil, errFull
	}
	i, known := m.index[id]
	if !known {
		i = uint64(len(m.index))
		m.index[id] = i
	}
	return &client.Answer[client.Receipt]{New: !known, Value: client.Receipt{AttemptID: attempt, LeafIndex: i}}, nil
}

func (m *memory) Begin(_ context.Context, b *client.Begin, wait client.Stage) (*client.Answer[client.Receipt], error) {
	return m.put("begin "+b.Source.InvocationID, wait, "att "+b.Source.InvocationID)
}

func (m *memory) Append(_ context.Context, a *client.Append, wait client.Stage) (*client.Answer[client.Receipt], error) {
	return m.put(a.SourceEventID+" of "+a.AttemptID, wait, a.AttemptID)
}

func record(t *testing.T, m *memory, recording string, wait client.Stage) (*Summary, error) {
	t.Helper()
	r, err := NewReader(strings.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	return Record(t.Context(), m, r, wait)
}

func TestEVI17_RecordingAgainAddsNothing(t *testing.T) {
	m := &memory{index: map[string]uint64{}}
	for _, fresh := range []bool{true, false} {
		sum, err := record(t, m, sample(t, "filesystem.jsonl"), client.Published)
		if err != nil {
			t.Fatal(err)
		}
		want := [2]int{18, 0}
		if !fresh {
			want = [2]int{0, 18}
		}
		if got := [2]int{sum.NewEvents, sum.KnownEvents}; got != want || sum.Attempts != 9 || len(m.index) != 18 {
			t.Errorf("fresh %v: new and known %v, want %v; %d attempts, %d in the ledger", fresh, got, want, sum.Attempts, len(m.index))
		}
		if diff := cmp.Diff(map[string]int{"succeeded": 6, "failed": 3}, sum.Outcomes); diff != "" {
			t.Error(diff)
		}
		if c := sum.Calls[4]; c != (Call{"att 5:7", "read_text_file", "failed"}) || sum.AttemptIDs()[8] != "att 9:11" || sum.Implementation != "secure-filesystem-server@0.2.0" {
			t.Errorf("got %+v", sum)
		}
		if last := m.said[len(m.said)-1]; last != "outcome of att 9:11 published" {
			t.Errorf("the last word is %q", last)
		}
	}
}

func TestEVI07_OutcomesGoToTheirOwnAttempts(t *testing.T) {
	m := &memory{index: map[string]uint64{}}
	_, err := record(t, m, talk(toolCall("1"), toolCall("2"), `s {"id":2,"result":{}}`, `s {"id":1,"result":{}}`), client.Logged)
	want := []string{"begin 1:1 accepted", "begin 2:2 accepted", "outcome of att 2:2 accepted", "outcome of att 1:1 accepted", "outcome of att 1:1 logged"}
	if diff := cmp.Diff(want, m.said); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestLOG14_TheLastPlaceInTheLogIsWaitedFor(t *testing.T) {
	// What comes last in the recording may have been in the ledger for long.
	m := &memory{index: map[string]uint64{"begin 1:1": 0, "outcome of att 1:1": 1}}
	_, err := record(t, m, talk(toolCall("1"), toolCall("2"), `s {"id":2,"result":{}}`, `s {"id":1,"result":{}}`), "")
	if last := m.said[len(m.said)-1]; err != nil || last != "outcome of att 2:2 " {
		t.Errorf("waited for %q, %v", last, err)
	}
}

func TestEVI22_NothingToRecord(t *testing.T) {
	m := &memory{index: map[string]uint64{}}
	if sum, err := record(t, m, talk(`c {"id":1,"method":"ping"}`), client.Logged); err != nil || sum.Attempts != 0 || len(m.said) != 0 {
		t.Errorf("got %+v, %v", sum, err)
	}
}

func TestDUR06_AFailureNamesTheLineAndKeepsTheCount(t *testing.T) {
	m := &memory{index: map[string]uint64{}, fail: 3}
	sum, err := record(t, m, talk(toolCall("1"), `s {"id":1,"result":{}}`, toolCall("2")), client.Logged)
	if !errors.Is(err, errFull) || err.Error() != "line 3, begin of call 2: full" || sum.Attempts != 1 || sum.Outcomes["succeeded"] != 1 {
		t.Errorf("got %+v, %v", sum, err)
	}
}

func TestEVI22_ABadLineIsRefusedBeforeAnythingIsSent(t *testing.T) {
	m := &memory{index: map[string]uint64{}}
	_, err := record(t, m, talk(toolCall("1"))+"\n{\"at\":\n", client.Logged)
	var le *LineError
	if !errors.As(err, &le) || len(m.said) != 0 {
		t.Errorf("got %v, sent %v", err, m.said)
	}
}

func TestEVI09_ATornLastLineEndsTheRecording(t *testing.T) {
	whole := strings.TrimSuffix(talk(toolCall("1")), "\n") + "\n"
	for _, torn := range []string{`{`, `{"at":"2026-07`, `{"at":"2026-07-28T00:00:00Z","dir":"server","message":{"id":1,"result":{}`} {
		m := &memory{index: map[string]uint64{}}
		sum, err := record(t, m, whole+torn, client.Accepted)
		if err != nil || sum.TornLine != 2 || sum.Outcomes["unknown"] != 1 || len(m.index) != 2 {
			t.Errorf("%s: got %+v, %v", torn, sum, err)
		}
		if _, err := record(t, m, whole+torn+"\n", client.Accepted); err == nil {
			t.Errorf("%s: a line with its end is taken for torn", torn)
		}
	}
	if _, err := record(t, &memory{}, `{"at":`, client.Accepted); err == nil {
		t.Error("a recording of one torn line is taken")
	}
}

func FuzzTRS27_Reader(f *testing.F) {
	f.Add([]byte(talk(toolCall("1"), `s {"id":1,"result":{"isError":true}}`, `c {"id":2,"method":"initialize","params":{"clientInfo":{}}}`)))
	f.Add([]byte(talk(`c {"id":1,"method":"tools/call","params":{"name":"t","task":{}}}`, `s {"id":1,"result":{"task":{"taskId":"k"}}}`)))
	f.Add([]byte("{}\n{"))
	f.Fuzz(func(t *testing.T, recording []byte) {
		r, err := NewReader(strings.NewReader(string(recording)))
		if err != nil {
			return
		}
		begun, ended := 0, map[int]bool{}
		for {
			s, err := r.Next()
			if errors.Is(err, io.EOF) {
				if len(ended) != begun {
					t.Fatalf("%d calls, %d outcomes", begun, len(ended))
				}
				return
			}
			if err != nil {
				return
			}
			switch {
			case (s.Begin == nil) == (s.Outcome == nil):
				t.Fatal("neither begin nor outcome, or both")
			case s.Begin != nil:
				if begun++; s.Call != begun {
					t.Fatalf("call %d after %d", s.Call, begun-1)
				}
			case s.Call < 1 || s.Call > begun || ended[s.Call]:
				t.Fatalf("outcome of call %d, %d begun", s.Call, begun)
			default:
				ended[s.Call] = true
			}
		}
	})
}
