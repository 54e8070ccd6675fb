package mcpb

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
)

// Bounds of a signature.
const (
	maxCertificates = 16
	minRSA          = 2048
)

var (
	oidData          = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 1}
	oidSignedData    = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 7, 2}
	oidContentType   = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 3}
	oidMessageDigest = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 4}
)

// digests by their object identifier.
var digestNames = map[string]struct {
	name string
	hash crypto.Hash
}{
	"2.16.840.1.101.3.4.2.1": {"sha256", crypto.SHA256},
	"2.16.840.1.101.3.4.2.3": {"sha512", crypto.SHA512},
}

type contentInfo struct {
	Type    asn1.ObjectIdentifier
	Content asn1.RawValue `asn1:"explicit,optional,tag:0"`
}

type signedData struct {
	Version      int
	Algorithms   []pkix.AlgorithmIdentifier `asn1:"set"`
	Content      contentInfo
	Certificates asn1.RawValue `asn1:"optional,tag:0"`
	CRLs         asn1.RawValue `asn1:"optional,tag:1"`
	Signers      []signerInfo  `asn1:"set"`
}

type signerInfo struct {
	Version int
	ID      struct {
		Issuer asn1.RawValue
		Serial *big.Int
	}
	Digest     pkix.AlgorithmIdentifier
	Attributes asn1.RawValue `asn1:"optional,tag:0"`
	Algorithm  pkix.AlgorithmIdentifier
	Signature  []byte
	Unsigned   asn1.RawValue `asn1:"optional,tag:1"`
}

type attribute struct {
	Type   asn1.ObjectIdentifier
	Values asn1.RawValue `asn1:"set"`
}

// detached is a detached signature by one signer.
type detached struct {
	algorithm string // of the digest: sha256 or sha512
	digest    []byte // of the content, as signed
	signer    *x509.Certificate
	others    []*x509.Certificate

	hash       crypto.Hash
	attributes []byte // what is signed: a SET, DER
	signature  []byte
}

var errSigners = errors.New("expected exactly one signer")

// parsePKCS7 reads a detached SignedData strictly: DER, one signer, whose
// certificate is there, and signed attributes with the content's digest.
func parsePKCS7(der []byte) (*detached, error) {
	var outer contentInfo
	if rest, err := asn1.Unmarshal(der, &outer); err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("no PKCS#7 in DER: %w", orTrailing(err))
	}
	if !outer.Type.Equal(oidSignedData) {
		return nil, fmt.Errorf("content of type %s, expected signed data", outer.Type)
	}
	var data signedData
	if rest, err := asn1.Unmarshal(outer.Content.Bytes, &data); err != nil || len(rest) > 0 {
		return nil, fmt.Errorf("no signed data in DER: %w", orTrailing(err))
	}
	if len(data.Content.Content.FullBytes) > 0 || !data.Content.Type.Equal(oidData) {
		return nil, errors.New("has content inside, expected a detached signature over data")
	}
	if len(data.Signers) != 1 {
		return nil, fmt.Errorf("%w, got %d", errSigners, len(data.Signers))
	}
	info := &data.Signers[0]
	alg, ok := digestNames[info.Digest.Algorithm.String()]
	if !ok {
		return nil, fmt.Errorf("digest algorithm %s, expected SHA-256 or SHA-512", info.Digest.Algorithm)
	}
	d := &detached{algorithm: alg.name, hash: alg.hash, signature: info.Signature}
	if err := d.readAttributes(info.Attributes); err != nil {
		return nil, err
	}
	certificates, err := x509.ParseCertificates(data.Certificates.Bytes)
	if err != nil {
		return nil, fmt.Errorf("certificates: %w", err)
	}
	if len(certificates) > maxCertificates {
		return nil, fmt.Errorf("%d certificates, limit %d", len(certificates), maxCertificates)
	}
	for _, c := range certificates {
		if d.signer == nil && bytes.Equal(c.RawIssuer, info.ID.Issuer.FullBytes) && info.ID.Serial != nil && c.SerialNumber.Cmp(info.ID.Serial) == 0 {
			d.signer = c
		} else {
			d.others = append(d.others, c)
		}
	}
	if d.signer == nil {
		return nil, errors.New("the signer's certificate is not there")
	}
	return d, nil
}

func orTrailing(err error) error {
	if err == nil {
		return errors.New("bytes after it")
	}
	return err
}

// readAttributes reads the signed attributes. Each of the two that count is there
// once, with one value.
func (d *detached) readAttributes(raw asn1.RawValue) error {
	if len(raw.FullBytes) == 0 {
		return errors.New("has no signed attributes")
	}
	// What is signed is the same bytes with the tag of a SET.
	d.attributes = bytes.Clone(raw.FullBytes)
	d.attributes[0] = asn1.TagSet | 0x20
	var attributes []attribute
	if rest, err := asn1.UnmarshalWithParams(d.attributes, &attributes, "set"); err != nil || len(rest) > 0 {
		return fmt.Errorf("signed attributes: %w", orTrailing(err))
	}
	var contentType asn1.ObjectIdentifier
	types := 0
	for _, a := range attributes {
		var to any
		switch {
		case a.Type.Equal(oidContentType):
			to = &contentType
			types++
		case a.Type.Equal(oidMessageDigest) && d.digest == nil:
			to = &d.digest
		case a.Type.Equal(oidMessageDigest):
			return errors.New("signed attributes have two digests")
		default:
			continue
		}
		if rest, err := asn1.Unmarshal(a.Values.Bytes, to); err != nil || len(rest) > 0 {
			return fmt.Errorf("signed attribute %s: %w", a.Type, orTrailing(err))
		}
	}
	if types != 1 || !contentType.Equal(oidData) || len(d.digest) != d.hash.Size() {
		return errors.New("signed attributes lack the type or the digest of the content")
	}
	return nil
}

// check verifies the signature by the signer's key. That the key is the
// publisher's is for the chain to show.
func (d *detached) check() error {
	var alg x509.SignatureAlgorithm
	switch key := d.signer.PublicKey.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSA {
			return fmt.Errorf("an RSA key of %d bits, expected at least %d", key.N.BitLen(), minRSA)
		}
		alg = map[string]x509.SignatureAlgorithm{"sha256": x509.SHA256WithRSA, "sha512": x509.SHA512WithRSA}[d.algorithm]
	case *ecdsa.PublicKey:
		alg = map[string]x509.SignatureAlgorithm{"sha256": x509.ECDSAWithSHA256, "sha512": x509.ECDSAWithSHA512}[d.algorithm]
	default:
		return fmt.Errorf("a key of type %T, expected RSA or ECDSA", key)
	}
	return d.signer.CheckSignature(alg, d.attributes, d.signature)
}
