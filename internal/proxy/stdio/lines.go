package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxLine bounds a line: more than any tool result that clients take.
const DefaultMaxLine = 64 << 20

// lineError says that a line is over the bound.
type lineError struct{ limit int }

func (e *lineError) Error() string {
	return fmt.Sprintf("a message is over %d bytes (hint: --max-message)", e.limit)
}

// readLine returns the next line with its end, in memory of its own. A last line
// without an end comes with io.EOF, as does nothing at all.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, &lineError{limit}
		}
		line = append(line, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// readLines puts every line of a stream into a queue, until its end.
func readLines(from io.Reader, limit int, q *queue) error {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(r, limit)
		if len(line) > 0 && !q.put(line) {
			return nil // nobody takes them any more
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
