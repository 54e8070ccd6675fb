// Package state is the state directory of a proxy: who it is, what it saw last,
// and the lock that keeps a second proxy out.
//
//	lock            held while a proxy runs
//	runtime.json    the persistent runtime id, made once
//	NAME.json       documents of the proxy's parts
//
// Nothing private is in it: no argument, no result, no token. Every document is
// replaced as a whole and flushed. A [Dir] is safe for concurrent use, by one
// writer per document.
package state

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/gofrs/flock"

	"counterfoil/internal/durable"
)

// ErrInUse says that another proxy runs on a state directory.
var ErrInUse = errors.New("another proxy runs on the state directory")

const (
	// MaxSlots bounds how many proxies share one folder of slots.
	MaxSlots = 64
	// maxDocument bounds a document: 16,384 tools with two digests each.
	maxDocument = 16 << 20
	// runtimePrefix begins the runtime id of every proxy.
	runtimePrefix = "mcp-proxy:"
)

// Dir is a locked state directory.
type Dir struct {
	path    string
	runtime string
	lock    *flock.Flock
}

type runtimeDoc struct {
	FormatVersion int    `json:"formatVersion"`
	RuntimeID     string `json:"runtimeId"`
}

// Open locks a state directory, which it creates with mode 0700, and reads or
// makes its runtime id from 16 random bytes. The error is an ErrInUse if another
// process holds the lock; the system lets go of it when that process ends,
// however it ends.
func Open(path string, random io.Reader) (*Dir, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := durable.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the state directory: %w", err)
	}
	d := &Dir{path: path, lock: flock.New(filepath.Join(path, "lock"), flock.SetPermissions(0o600))}
	ok, err := d.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%w %s (hint: stop it, or choose another --state)", ErrInUse, path)
	}
	if err := d.identify(random); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// OpenSlot opens the first of the directories base/0, base/1, … on which no
// proxy runs, so that the same server can be started by several clients. The
// lowest comes first: what a crashed proxy left open is found soon.
func OpenSlot(base string, random io.Reader) (*Dir, error) {
	for slot := range MaxSlots {
		d, err := Open(filepath.Join(base, strconv.Itoa(slot)), random)
		if !errors.Is(err, ErrInUse) {
			return d, err
		}
	}
	return nil, fmt.Errorf("%w: %d of them below %s (hint: stop some, or choose a --state of its own)", ErrInUse, MaxSlots, base)
}

// Close lets go of the lock.
func (d *Dir) Close() error { return d.lock.Close() }

// Path is the absolute path of the directory.
func (d *Dir) Path() string { return d.path }

// RuntimeID is this proxy's own persistent id: "mcp-proxy:" and 32 hex digits.
func (d *Dir) RuntimeID() string { return d.runtime }

// identify reads the runtime id, or makes it. From the moment that the file is
// there on, the id is the proxy's for ever; before it nothing was recorded.
func (d *Dir) identify(random io.Reader) error {
	var doc runtimeDoc
	found, err := d.Load("runtime", &doc)
	if err != nil {
		return err
	}
	if !found {
		var id [16]byte
		if _, err := io.ReadFull(random, id[:]); err != nil {
			return fmt.Errorf("make a runtime id: %w", err)
		}
		doc = runtimeDoc{FormatVersion: 1, RuntimeID: runtimePrefix + hex.EncodeToString(id[:])}
		if err := d.Save("runtime", doc); err != nil {
			return err
		}
	}
	id, ok := strings.CutPrefix(doc.RuntimeID, runtimePrefix)
	if raw, err := hex.DecodeString(id); !ok || err != nil || len(raw) != 16 || doc.FormatVersion != 1 {
		return fmt.Errorf("%s: want formatVersion 1 and a runtimeId of %q and 32 hex digits, got %d and %q (hint: an older program cannot read a newer state; choose another --state)",
			d.file("runtime"), runtimePrefix, doc.FormatVersion, doc.RuntimeID)
	}
	d.runtime = doc.RuntimeID
	return nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name+".json") }

// Load reads a document into v and reports whether there is one. Members that v
// does not have are refused.
func (d *Dir) Load(name string, v any) (found bool, err error) {
	b, err := durable.ReadFile(d.file(name), maxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the state: %w", err)
	}
	if err := json.Unmarshal(b, v, json.RejectUnknownMembers(true)); err != nil {
		return false, fmt.Errorf("%s: %w", d.file(name), err)
	}
	return true, nil
}

// Save replaces a document. When it returns nil the document is on the disk.
func (d *Dir) Save(name string, v any) error {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("encode %s: %w", d.file(name), err)
	}
	if err := durable.WriteFile(d.file(name), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("keep the state: %w", err)
	}
	return nil
}

// Remove deletes a document; one that is not there is no error.
func (d *Dir) Remove(name string) error {
	if err := durable.Remove(d.file(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop the state: %w", err)
	}
	return nil
}
