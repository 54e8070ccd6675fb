package mcpb

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"counterfoil/ledger/admission/evidence/sigstore"
)

var (
	start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	end   = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
)

// signer is a certificate of a root, with its key.
type signer struct {
	root, cert *x509.Certificate
	key        *ecdsa.PrivateKey
}

func newSigner(t testing.TB, change func(leaf *x509.Certificate)) *signer {
	t.Helper()
	make := func(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
		der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
		if err != nil {
			t.Fatal(err)
		}
		c, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	rootKey, leafKey := key(), key()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Root"}, NotBefore: start.AddDate(-1, 0, 0), NotAfter: end.AddDate(1, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Publisher"}, NotBefore: start, NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	if change != nil {
		change(leaf)
	}
	r := make(root, root, rootKey, rootKey)
	return &signer{r, make(leaf, r, leafKey, rootKey), leafKey}
}

func (s *signer) roots() *sigstore.File {
	return &sigstore.File{Name: "mcpb_roots", Body: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.root.Raw})}
}

// parts of a signature that a test can spoil.
type parts struct {
	data       signedData
	attributes []attribute
	outer      asn1.ObjectIdentifier
}

func der(t testing.TB, v any, params string) []byte {
	t.Helper()
	b, err := asn1.MarshalWithParams(v, params)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func set(t testing.TB, values ...any) asn1.RawValue {
	t.Helper()
	var inner []byte
	for _, v := range values {
		inner = append(inner, der(t, v, "")...)
	}
	return asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: inner}
}

// sign makes a signature block over content.
func (s *signer) sign(t testing.TB, content []byte, change func(*parts)) []byte {
	t.Helper()
	h := crypto.SHA256.New()
	h.Write(content)
	sha256 := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 2, 1}}
	p := &parts{outer: oidSignedData}
	p.data = signedData{
		Version: 1, Algorithms: []pkix.AlgorithmIdentifier{sha256}, Content: contentInfo{Type: oidData},
		Certificates: asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: s.cert.Raw},
		Signers:      []signerInfo{{Version: 1, Digest: sha256, Algorithm: pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}}}},
	}
	info := &p.data.Signers[0]
	info.ID.Issuer, info.ID.Serial = asn1.RawValue{FullBytes: s.cert.RawIssuer}, s.cert.SerialNumber
	p.attributes = []attribute{{oidContentType, set(t, oidData)}, {oidMessageDigest, set(t, h.Sum(nil))}}
	if change != nil {
		change(p)
	}
	if p.attributes != nil {
		raw := der(t, p.attributes, "set")
		h := crypto.SHA256.New()
		h.Write(raw)
		sig, err := ecdsa.SignASN1(rand.Reader, s.key, h.Sum(nil))
		if err != nil {
			t.Fatal(err)
		}
		raw[0] = 0xa0
		for i := range p.data.Signers {
			p.data.Signers[i].Attributes = asn1.RawValue{FullBytes: raw}
			if p.data.Signers[i].Signature == nil {
				p.data.Signers[i].Signature = sig
			}
		}
	}
	return block(der(t, contentInfo{p.outer, asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: der(t, p.data, "")}}, ""))
}

func block(signature []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte(header), uint32(len(signature)))
	return append(append(b, signature...), footer...)
}
