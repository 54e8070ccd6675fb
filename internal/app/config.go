package app

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"counterfoil/internal/access"
	"counterfoil/internal/telemetry/trace"
	"counterfoil/ledger/event"
	"counterfoil/ledger/keyring"
)

// Durability profiles.
const (
	// Hardened answers once the leaf of an event is flushed to the disk.
	Hardened = "hardened"
	// Balanced answers once the stream has an event: a power loss can cost the
	// events that were accepted and not logged yet. They are announced then.
	Balanced = "balanced"
)

// DefaultListen is the address that the API listens on.
const DefaultListen = "127.0.0.1:8480"

// minRecosign keeps an idle log from being a burden to its witnesses.
const minRecosign = time.Second

// Config says how to run a ledger. The zero value of a field is its default.
type Config struct {
	// Dir is the data directory. Required; created with mode 0700.
	Dir string
	// Origin names the log in checkpoints, like example.com/ledger. It is
	// chosen once, at first start; the default is "counterfoil.local/" and 16
	// random hex digits.
	Origin string
	// Tenant is the tenant of all events, chosen once; default "default".
	Tenant string
	// Listen is the address of the HTTP API; default DefaultListen.
	Listen string
	// AllowRemote admits an address that is not loopback.
	AllowRemote bool
	// Durability is Hardened (the default) or Balanced.
	Durability string
	// NATS is the URL of an external NATS; empty runs one in the process.
	NATS string
	// Cluster makes this ledger one of several nodes; nil for one alone.
	Cluster *Cluster
	// NATSCreds is the credentials file for NATS.
	NATSCreds string
	// NATSPasswordFile holds the password of the user that NATS names.
	NATSPasswordFile string
	// NATSListen lets stream consumers connect to the embedded server, with
	// read-only permissions and the token in DIR/consumer.token.
	NATSListen string
	// EventKeyID and EventSeedFile choose another event key than the one in
	// DIR/keys; both or neither.
	EventKeyID, EventSeedFile string
	// Signer is a helper program that signs events, in place of EventSeedFile;
	// EventKeyID must name its key. nil without one.
	Signer *keyring.HelperConfig
	// DiskReserve is how many bytes stay free: below it, intake refuses and
	// the log can still catch up. Default 16 MiB; more than a quarter of the
	// file system counts as a quarter.
	DiskReserve uint64
	// PublishEvery is the shortest time between two checkpoints; default
	// 50 ms, of several nodes 200 ms.
	PublishEvery time.Duration
	// WitnessPolicy is a file of C2SP tlog-policy text: the witnesses that are
	// asked to cosign checkpoints, and how many make a receipt witnessed. Empty
	// asks none.
	WitnessPolicy string
	// CosignEvery is the shortest time between two requests to one witness; by
	// default one follows the other as soon as there is a newer checkpoint.
	CosignEvery time.Duration
	// RecosignEvery is how old a witness's cosignature of an unchanged log gets
	// before a new one is asked for; default 1 h.
	RecosignEvery time.Duration
	// MCPTrust is the trust file that /mcp judges by; without one it judges
	// nothing.
	MCPTrust string
	// ExternalURL is the base URL that clients know the API by, like
	// https://ledger.example; default: the Host header of each request.
	ExternalURL string
	// RatePerToken and RatePerAddress are how many requests a second one token and
	// one remote address may make, twice as many at once; 0 for no limit.
	RatePerToken, RatePerAddress int
	// TraceEndpoint is the URL of an OTLP/HTTP receiver that spans are sent to;
	// empty sends none. TraceRatio is the part of the calls that is traced whose
	// callers do not say, 0 to 1.
	TraceEndpoint string
	TraceRatio    float64
	// Version is shown in status and logs.
	Version string

	Logger *slog.Logger
	Random io.Reader
	Now    func() time.Time
}

// validate fills in defaults and reports every problem at once.
func (c *Config) validate() error {
	var errs []error
	if c.Dir == "" {
		errs = append(errs, errors.New("no data directory (hint: --data DIR)"))
	} else if abs, err := filepath.Abs(c.Dir); err != nil {
		errs = append(errs, err)
	} else {
		c.Dir = abs
	}
	if c.Tenant == "" {
		c.Tenant = "default"
	}
	if !event.ValidTenant(c.Tenant) {
		errs = append(errs, fmt.Errorf("tenant %q is not 1 to %d of a-z 0-9 -", c.Tenant, event.MaxTenantBytes))
	}
	if c.Origin != "" {
		if err := event.CheckOrigin("origin", c.Origin); err != nil {
			errs = append(errs, err)
		}
	}
	if c.Listen == "" {
		c.Listen = DefaultListen
	}
	for name, addr := range map[string]string{"listen": c.Listen, "nats listen": c.NATSListen} {
		if addr == "" {
			continue
		}
		if err := checkAddress(addr, c.AllowRemote); err != nil {
			errs = append(errs, fmt.Errorf("%s address: %w", name, err))
		}
	}
	switch c.Durability {
	case "":
		c.Durability = Hardened
	case Hardened, Balanced:
	default:
		errs = append(errs, fmt.Errorf("unknown durability profile %q (hint: %s or %s)", c.Durability, Hardened, Balanced))
	}
	if c.Signer != nil && c.EventSeedFile != "" {
		errs = append(errs, errors.New("an external signer and an event seed file: give one of them"))
	}
	if (c.EventKeyID == "") != (c.EventSeedFile == "" && c.Signer == nil) {
		errs = append(errs, errors.New("an event key needs both its id and its seed file"))
	}
	if c.NATS != "" && c.NATSListen != "" {
		errs = append(errs, errors.New("an external NATS has its own listeners: leave out the address for consumers"))
	}
	if c.Cluster != nil {
		own := *c.Cluster
		c.Cluster = &own
		if err := own.validate(c.NATS, c.AllowRemote); err != nil {
			errs = append(errs, fmt.Errorf("cluster: %w", err))
		}
	}
	if c.ExternalURL != "" {
		if _, err := externalHost(c.ExternalURL); err != nil {
			errs = append(errs, err)
		}
	}
	if c.DiskReserve == 0 {
		c.DiskReserve = 16 << 20
	}
	if c.RecosignEvery < 0 || c.RecosignEvery > 0 && c.RecosignEvery < minRecosign {
		errs = append(errs, fmt.Errorf("recosign every %s: want at least %s", c.RecosignEvery, minRecosign))
	}
	if c.CosignEvery < 0 {
		errs = append(errs, fmt.Errorf("cosign every %s: want a time", c.CosignEvery))
	}
	if c.RatePerToken < 0 || c.RatePerAddress < 0 {
		errs = append(errs, errors.New("a rate is 0, for none, or more requests a second"))
	}
	if c.PublishEvery == 0 {
		c.PublishEvery = 50 * time.Millisecond
		if c.Cluster != nil {
			// A checkpoint of several nodes is two writes of the record that they share
			// and two files on each node.
			c.PublishEvery = 200 * time.Millisecond
		}
	}
	if c.TraceEndpoint != "" {
		errs = append(errs, trace.Check(c.TraceEndpoint))
	}
	if !(c.TraceRatio >= 0 && c.TraceRatio <= 1) {
		errs = append(errs, fmt.Errorf("trace ratio %v is not within 0 to 1", c.TraceRatio))
	}
	if c.Logger == nil || c.Random == nil || c.Now == nil {
		errs = append(errs, errors.New("logger, randomness and clock must be given"))
	}
	return errors.Join(errs...)
}

// checkAddress refuses addresses beyond this machine unless they are asked for
// (EVI-04): receipts are incident artifacts.
func checkAddress(addr string, remote bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%q: %w", addr, err)
	}
	ip := net.ParseIP(host)
	if remote || host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("%q is not a loopback address (hint: --allow-remote, behind something that encrypts)", addr)
}

// paths of the data directory.
type paths struct{ dir string }

func (p paths) join(name string) string { return filepath.Join(p.dir, name) }
func (p paths) ledger() string          { return p.join("ledger.json") }
func (p paths) lock() string            { return p.join("lock") }
func (p paths) token() string           { return p.join("token") }
func (p paths) tokens() string          { return p.join(access.File) }
func (p paths) consumerToken() string   { return p.join("consumer.token") }
func (p paths) keys() string            { return p.join("keys") }
func (p paths) log() string             { return p.join("log") }
func (p paths) guard() string           { return p.join("guard") }
func (p paths) stream() string          { return p.join("stream") }
func (p paths) clusterStream() string   { return p.join("cluster") }
func (p paths) founding() string        { return p.join("founding") }
func (p paths) vault() string           { return p.join("vault") }
func (p paths) fetched() string         { return p.join("fetched") }
func (p paths) index() string           { return p.join("index") }
func (p paths) views() string           { return p.join("views") }
func (p paths) repeat() string          { return p.join("notices.json") }
func (p paths) stale() string           { return p.join("derived.stale") }
func (p paths) aside() string           { return p.join("aside") }
func (p paths) witness() string         { return p.join("witness") }

// isEmpty tells that a directory is missing or has nothing in it.
func isEmpty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
