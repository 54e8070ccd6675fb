package backup

import (
	"bytes"
	"fmt"
	"io"
	"regexp"

	"filippo.io/age"
	"github.com/go-json-experiment/json"
)

// secretFile are the names that may be among the secrets.
var secretFile = regexp.MustCompile(`^keys/[a-z][a-z0-9.-]{0,64}$`)

// maxSecrets bounds what is under the passphrase: some keys of 100 bytes.
const maxSecrets = 1 << 20

// seal encrypts secrets under a passphrase, in the age format (scrypt).
func seal(files []Named, passphrase string) ([]byte, error) {
	r, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, fmt.Errorf("passphrase: %w", err)
	}
	doc := map[string][]byte{}
	for _, f := range files {
		doc[f.Name] = f.Data
	}
	plain, err := json.Marshal(doc, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := age.Encrypt(&out, r)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unseal opens what seal made.
func unseal(sealed []byte, passphrase string) ([]Named, error) {
	id, err := age.NewScryptIdentity(passphrase)
	if err != nil {
		return nil, fmt.Errorf("passphrase: %w", err)
	}
	r, err := age.Decrypt(bytes.NewReader(sealed), id)
	if err != nil {
		return nil, fmt.Errorf("the keys of the backup do not open (hint: is it the passphrase of that backup?): %w", err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxSecrets+1))
	if err != nil {
		return nil, fmt.Errorf("the keys of the backup: %w", err)
	}
	if len(plain) > maxSecrets {
		return nil, fmt.Errorf("the keys of the backup have over %d bytes", maxSecrets)
	}
	var doc map[string][]byte
	if err := json.Unmarshal(plain, &doc); err != nil {
		return nil, fmt.Errorf("the keys of the backup: %w", err)
	}
	var out []Named
	for name, data := range doc {
		if !secretFile.MatchString(name) {
			return nil, fmt.Errorf("the keys of the backup: a file %q", name)
		}
		out = append(out, Named{name, data})
	}
	return out, nil
}
