package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/keyring"
	"counterfoil/ledger/tiles"
	"counterfoil/ledger/tlog"
)

// Schema is the schemaVersion of a Manifest.
const Schema = "counterfoil.backup.v1"

// Point is where a backup ends, and where one that continues it begins. The zero
// Point is before everything.
type Point struct {
	Size  uint64 `json:"size"`  // leaves
	Vault uint64 `json:"vault"` // version of the vault's rows
}

// Manifest is the last file of a backup, as canonical JSON: a backup without it
// is not whole.
type Manifest struct {
	SchemaVersion string `json:"schemaVersion"`
	Origin        string `json:"origin"`
	Tenant        string `json:"tenant"`
	VKey          string `json:"vkey"`      // of the log
	CreatedAt     string `json:"createdAt"` // RFC 3339, UTC, milliseconds
	From          Point  `json:"from"`
	To            Point  `json:"to"`
	Root          string `json:"root"` // hex, of the tree of To.Size
	Secrets       bool   `json:"secrets"`
	Files         []File `json:"files"` // in the order of the archive, without the manifest
}

// File is one file of a backup.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

// Names in a backup.
const (
	manifestName = "manifest.json"
	identityName = "ledger.json"
	logDir       = "log/"
	guardName    = "guard/record.json"
	vaultDir     = "vault/"
	secretsName  = "keys.age"
)

const (
	maxFiles    = 50_000_000 // a tree of 10^10 leaves has 40 million full tiles
	maxManifest = 1 << 30
	maxSmall    = 64 << 20
)

// small are the names, beside tiles and rows of the vault, that a backup may hold.
var small = regexp.MustCompile(`^(witness|aside)/[A-Za-z0-9][A-Za-z0-9._-]{0,200}(/[A-Za-z0-9][A-Za-z0-9._-]{0,200})?$`)

var rows = regexp.MustCompile(`^vault/[0-9]{9}$`)

// allowed bounds a file by its name; ok is false for one that no backup holds.
// Names are never paths into somewhere else.
func allowed(name string) (most int64, ok bool) {
	switch {
	case name == manifestName:
		return maxManifest, true
	case name == identityName, name == guardName, name == secretsName, name == logDir+tlog.SnapshotState,
		name == "keys/"+keyring.RegistryFile, name == "keys/"+keyring.SignerFile:
		return maxSmall, true
	case rows.MatchString(name):
		return vaultPart, true
	case small.MatchString(name) && path.Clean(name) == name:
		return maxSmall, true
	}
	rest, ok := strings.CutPrefix(name, logDir)
	if !ok {
		return 0, false
	}
	p, err := tiles.ParsePath(rest)
	if err != nil {
		return 0, false
	}
	switch p.Kind {
	case tiles.Checkpoint:
		return 1 << 20, true
	case tiles.Tile:
		return tiles.Width * tiles.HashSize, true
	default:
		return tiles.Width * (2 + tiles.MaxEntry), true
	}
}

func digest(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:]) }

func (m *Manifest) encode() ([]byte, error) {
	b, err := json.Marshal(m, json.Deterministic(true))
	return append(b, '\n'), err
}

func parseManifest(b []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(b, m, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	if m.SchemaVersion != Schema {
		return nil, fmt.Errorf("%s: schema %q, this program knows %q", manifestName, m.SchemaVersion, Schema)
	}
	if m.To.Size < m.From.Size || m.To.Vault < m.From.Vault {
		return nil, fmt.Errorf("%s: it ends before it begins", manifestName)
	}
	return m, nil
}
