package faults

import (
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"

	"counterfoil/projections/follow"
	"counterfoil/projections/kv"
)

// viewDigest is the digest of the views of a stopped ledger, as they are.
func viewDigest(t testing.TB, dir, origin string, size uint64) string {
	t.Helper()
	db, err := kv.Open(kv.Config{Dir: filepath.Join(dir, "views"), Origin: origin, Tenant: "default", Schema: follow.Schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s, err := db.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sum, err := s.Digest(t.Context(), size)
	if err != nil {
		t.Fatal(err)
	}
	return "sha256:" + hex.EncodeToString(sum[:])
}

// rebuild makes the views of a stopped ledger anew from the log, and returns their
// digest.
func rebuild(t testing.TB, dir string) string {
	t.Helper()
	out, err := exec.Command(binary, "rebuild", "--json", "--data", dir).Output()
	if err != nil {
		t.Fatalf("rebuild: %v", err)
	}
	var doc struct{ ViewDigest string }
	if err := json.Unmarshal(out, &doc); err != nil || doc.ViewDigest == "" {
		t.Fatalf("rebuild: %q %v", out, err)
	}
	return doc.ViewDigest
}

// rebuildEqual makes the views anew twice and compares the digests.
func rebuildEqual(t testing.TB, dir string) {
	t.Helper()
	if a, b := rebuild(t, dir), rebuild(t, dir); a != b {
		t.Errorf("view digests differ: %s and %s", a, b)
	}
}
