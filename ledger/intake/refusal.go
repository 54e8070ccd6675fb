package intake

import (
	"cmp"
	"errors"
	"fmt"

	"counterfoil/ledger/canon"
	"counterfoil/ledger/event"
)

// RequestError says which member of a request was refused.
type RequestError struct {
	Path   string // JSON pointer
	Detail string
	Hint   string
	// TooLarge marks a body or value over its bound.
	TooLarge bool
}

func (e *RequestError) Error() string { return canon.Refusal(e.Path, "body", e.Detail, e.Hint) }

// Hints that fit many members.
const (
	hintMembers = "the members and their types are in docs/spec/http.md"
	hintID      = "an identifier is text of 1 to 255 bytes, without control characters and noncharacters"
	hintEvent   = "what an event may hold is in docs/spec/event.md"
	hintJSON    = "send one JSON document in UTF-8 and nothing after it"
)

func refuse(path, hint, format string, args ...any) *RequestError {
	return &RequestError{Path: path, Detail: fmt.Sprintf(format, args...), Hint: hint}
}

func tooLarge(path string, size, limit int) *RequestError {
	return &RequestError{Path: path, Detail: fmt.Sprintf("%d bytes, limit %d", size, limit), TooLarge: true,
		Hint: "send a digest or a reference instead of the whole value"}
}

func fromEvent(err error) error {
	var ee *event.Error
	if errors.As(err, &ee) {
		return &RequestError{Path: ee.Path, Detail: ee.Detail, Hint: cmp.Or(ee.Hint, hintEvent)}
	}
	return err
}
