package verifycmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"counterfoil/ledger/event"
	"counterfoil/ledger/receipt"
)

// exportProofs writes each receipt of a verified bundle as a C2SP tlog-proof and
// the bytes of its leaf: EVENT_ID.tlog-proof and EVENT_ID.leaf in the directory,
// which is made if it is not there. Each file is there whole or not at all; one
// of an earlier run is replaced.
func exportProofs(dir string, raw []byte) (n int, err error) {
	b, err := receipt.Parse(raw)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 0, err
	}
	for _, e := range b.Entries {
		proof, err := receipt.BuildTlogProof(e.LeafIndex, e.Proof, b.Checkpoint)
		if err != nil {
			return n, err
		}
		name := filepath.Join(dir, e.Record.Digest().EventID())
		if err := writeFile(name+".leaf", event.AppendLeaf(nil, e.Record.EventBytes, e.Record.SignatureBytes)); err != nil {
			return n, err
		}
		if err := writeFile(name+".tlog-proof", proof); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// writeFile writes beside the name, then renames: a link that stands there is
// replaced and not followed.
func writeFile(name string, b []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), ".tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
