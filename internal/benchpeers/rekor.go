package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"counterfoil/internal/bench/rig"
)

// rekorProgram is built as its maker pins it, apart from this module.
const rekorProgram = "github.com/sigstore/rekor-tiles/v2/cmd/rekor-server/posix@v2.2.1"

// rekorDefaultClients is the number of clients that Rekor's own settings are
// measured with: an answer takes ten seconds then, whatever the load.
const rekorDefaultClients = 64

// buildRekor returns the server's program.
func buildRekor(ctx context.Context, work string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "install", rekorProgram)
	cmd.Dir = work // outside of every module
	cmd.Env = append(os.Environ(), "GOBIN="+work, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(work, "posix"), nil
}

// rekor is the POSIX server of Rekor v2, given signed digests over HTTP. It
// answers with a proof under a checkpoint, for which it looks once a second. It
// comes with its own settings, or with batches as large as there are clients and
// the most frequent checkpoints that its storage takes.
func rekor(bin string, suited bool) rig.System {
	name := "Rekor v2"
	if suited {
		name += ", batches as clients or 2ms, checkpoints every 100ms"
	}
	return rig.System{Name: name, Open: func(ctx context.Context, dir string, clients int) (rig.Recorder, error) {
		args, err := rekorArgs(dir)
		if err != nil {
			return nil, err
		}
		if suited {
			args = append(args, "--batch-max-size="+strconv.Itoa(clients), "--batch-max-age=2ms", "--checkpoint-interval=100ms")
		}
		c, err := newRekorClients(clients)
		if err != nil {
			return nil, err
		}
		ports, err := freePorts(3)
		if err != nil {
			return nil, err
		}
		log, err := os.Create(filepath.Join(dir, "server.log"))
		if err != nil {
			return nil, err
		}
		defer log.Close() // the server has its own
		c.cmd = exec.CommandContext(ctx, bin, append(args, "--http-port="+ports[0], "--grpc-port="+ports[1], "--http-metrics-port="+ports[2])...)
		c.cmd.Stderr = log
		c.url = "http://127.0.0.1:" + ports[0]
		if err := c.cmd.Start(); err != nil {
			return nil, err
		}
		if err := c.ready(ctx); err != nil {
			said, _ := os.ReadFile(log.Name())
			return nil, errors.Join(fmt.Errorf("%w: %s", err, said), c.Close())
		}
		return c, nil
	}}
}

func rekorArgs(dir string) ([]string, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return nil, err
	}
	return []string{"serve", "--hostname=bench.example", "--storage-dir=" + filepath.Join(dir, "log"), "--signer-filepath=" + file, "--log-level=error"}, nil
}

// freePorts are ports of this machine that nobody listened on just now.
func freePorts(n int) (ports []string, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // all at the end, so that they differ
		_, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}

type rekorClients struct {
	cmd    *exec.Cmd
	url    string
	client *http.Client
	key    *ecdsa.PrivateKey
	public []byte
	last   atomic.Int64
}

func newRekorClients(clients int) (*rekorClients, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return &rekorClients{key: key, public: public, client: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: clients, DisableCompression: true}}}, nil
}

func (c *rekorClients) ready(ctx context.Context) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		resp, err := c.client.Get(c.url + "/healthz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("healthz: status %d", resp.StatusCode)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
	}
}

// entry is a request for a digest that was not there before.
type entry struct {
	HashedRekord struct {
		Digest    []byte `json:"digest"`
		Signature struct {
			Content  []byte `json:"content"`
			Verifier struct {
				PublicKey struct {
					RawBytes []byte `json:"rawBytes"`
				} `json:"publicKey"`
				KeyDetails string `json:"keyDetails"`
			} `json:"verifier"`
		} `json:"signature"`
	} `json:"hashedRekordRequestV002"`
}

func (c *rekorClients) Record(ctx context.Context, _ int) (int, error) {
	digest := sha256.Sum256(strconv.AppendInt([]byte("event "), c.last.Add(1), 10))
	var e entry
	var err error
	e.HashedRekord.Digest = digest[:]
	if e.HashedRekord.Signature.Content, err = ecdsa.SignASN1(rand.Reader, c.key, digest[:]); err != nil {
		return 0, err
	}
	e.HashedRekord.Signature.Verifier.PublicKey.RawBytes = c.public
	e.HashedRekord.Signature.Verifier.KeyDetails = "PKIX_ECDSA_P256_SHA_256"
	body, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/api/v2/log/entries", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", resp.StatusCode, answer)
	}
	return 1, err
}

func (c *rekorClients) Settle(context.Context) error { return nil }

func (c *rekorClients) Close() error {
	c.client.CloseIdleConnections()
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	late := time.AfterFunc(time.Minute, func() { _ = c.cmd.Process.Kill() })
	defer late.Stop()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("rekor: stop: %w", err)
	}
	return nil
}
