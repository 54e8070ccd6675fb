// Command counterfoil-signer-file is an external signer that keeps its key in a
// file: an example of the helper protocol of counterfoil serve --signer, and what
// the tests run. A helper for a key service has the same shape, with a call of that
// service in place of the signature below.
//
//	counterfoil-signer-file        serve; the seed file is named by COUNTERFOIL_SIGNER_SEED
//	counterfoil-signer-file key    print key id and public key
//
// The seed file is one that counterfoil keys generate wrote: 32 bytes in one line
// of base64, mode 0600. The program gets digests, never what was digested.
package main

import (
	"bufio"
	"crypto"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"

	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("COUNTERFOIL_SIGNER_SEED"), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "counterfoil-signer-file:", err)
		os.Exit(1)
	}
}

func run(args []string, seedFile string, in io.Reader, out io.Writer) error {
	if seedFile == "" {
		return errors.New("COUNTERFOIL_SIGNER_SEED names no seed file")
	}
	seed, err := keyring.ReadSeed(seedFile)
	if err != nil {
		return err
	}
	key := ed25519.NewKeyFromSeed(seed.Bytes())
	pub := key.Public().(ed25519.PublicKey)
	switch {
	case len(args) == 1 && args[0] == "key":
		_, err := fmt.Fprintf(out, "%s\n%s\n", event.PrehashKeyID(pub), base64.StdEncoding.EncodeToString(pub))
		return err
	case len(args) > 0:
		return fmt.Errorf("unknown argument %q, expected key or nothing", args[0])
	}
	return serve(key, bufio.NewScanner(in), out)
}

type request struct {
	Schema  string `json:"schema,omitzero"`
	ID      uint64 `json:"id,omitzero"`
	Profile string `json:"profile,omitzero"`
	Digest  []byte `json:"digest,omitzero"`
}

type answer struct {
	ID        uint64 `json:"id"`
	Signature []byte `json:"signature,omitzero"`
	Error     string `json:"error,omitzero"`
}

type hello struct {
	Schema    string `json:"schema"`
	Profile   string `json:"profile"`
	PublicKey []byte `json:"publicKey"`
}

// serve answers line by line; a helper for a remote service would answer each in
// a goroutine of its own, in any order.
func serve(key ed25519.PrivateKey, lines *bufio.Scanner, out io.Writer) error {
	write := func(v any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		_, err = out.Write(append(b, '\n'))
		return err
	}
	for first := true; lines.Scan(); first = false {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r, json.RejectUnknownMembers(true)); err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if first {
			if r.Schema != keyring.HelperSchema {
				return fmt.Errorf("protocol %q, this program speaks %s", r.Schema, keyring.HelperSchema)
			}
			if err := write(hello{r.Schema, keyring.HelperProfile, key.Public().(ed25519.PublicKey)}); err != nil {
				return err
			}
			continue
		}
		a := answer{ID: r.ID}
		if r.Profile != keyring.HelperProfile {
			a.Error = "unknown profile"
		} else if sig, err := key.Sign(nil, r.Digest, &ed25519.Options{Hash: crypto.SHA512}); err != nil {
			a.Error = err.Error()
		} else {
			a.Signature = sig
		}
		if err := write(a); err != nil {
			return err
		}
	}
	return lines.Err()
}
