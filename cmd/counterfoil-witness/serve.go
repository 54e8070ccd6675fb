package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"counterfoil/internal/durable"
	"counterfoil/witness/server"
	"counterfoil/witness/state"
)

// drainLimit bounds how long a stop waits for requests in flight.
const drainLimit = 20 * time.Second

type serveFlags struct {
	listen, state, guard, logs, level string
	audit                             string
	keyFiles                          []string
	allowRemote                       bool
}

// ready is the line that serve prints.
type ready struct {
	Listening string `json:"listening"` // submission and monitoring prefix
	Name      string `json:"name"`
	// VKey is the key that the state belongs to.
	VKey string `json:"vkey"`
	// VKeys are all keys, in the order of their lines in an answer.
	VKeys []string `json:"vkeys"`
}

func (p *program) serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a witness",
		Long: `serve answers add-checkpoint and serves the latest cosigned checkpoints until it is told to
stop (SIGINT or SIGTERM; a second one ends it at once). When requests are answered it
prints one JSON line {"listening","name","vkey","vkeys"}. Logs are JSON lines on stderr.

The log list has the format logs/v0. Its logs are added to the state; none is ever
changed or removed by a list. SIGHUP reads it again.

With --audit, a checkpoint is cosigned only if every leaf of its tree was read from the
log's tiles and is what an auditor accepts; a log without a line in the file is not
cosigned. The answer is 503 until that is known, and 403 if a leaf does not pass.

With two key files, one of each type, every checkpoint is cosigned with both. The state
belongs to the first.

The state belongs to the key, for ever: never run one key on two states, and never
restore the state from a backup. The start refuses what it can notice of that.`,
		Example: `  counterfoil-witness serve --key-file witness.key --state witness-state --logs logs.txt
  counterfoil-witness serve --key-file k --state /var/lib/witness --guard /mnt/other/guard --logs logs.txt`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := p.logger(f.level)
			if err != nil {
				return err
			}
			if err := checkAddress(f.listen, f.allowRemote); err != nil {
				return usageError{err}
			}
			return p.serve(cmd.Context(), f, log)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8481", "address; port 0 chooses one")
	fs.StringArrayVar(&f.keyFiles, "key-file", nil, "key of the witness, from keygen; given twice: one of each type, the state belongs to the first")
	fs.StringVar(&f.state, "state", "", "state directory; made at first start")
	fs.StringVar(&f.guard, "guard", "", "directory of the high-water mark, best on another disk (default: guard in the state directory)")
	fs.StringVar(&f.logs, "logs", "", "list of the logs to cosign, logs/v0")
	fs.StringVar(&f.audit, "audit", "", "cosign only what an audit passes: a file of lines ORIGIN LOG_URL TRUST_FILE [allow-parked N]")
	fs.BoolVar(&f.allowRemote, "allow-remote", false, "admit an address that is not loopback, behind something that encrypts")
	fs.StringVar(&f.level, "log-level", "info", "debug, info, warn or error")
	require(cmd, "key-file", "state", "logs")
	return cmd
}

// checkAddress refuses addresses beyond this machine unless they are asked for.
func checkAddress(addr string, remote bool) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("listen address %q: %w", addr, err)
	}
	ip := net.ParseIP(host)
	if remote || host == "localhost" || (ip != nil && ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("listen address %q is not a loopback address (hint: --allow-remote, behind something that encrypts)", addr)
}

func (p *program) serve(ctx context.Context, f serveFlags, log *slog.Logger) (err error) {
	keys, markers, err := loadKeys(f.keyFiles)
	if err != nil {
		return err
	}
	key := keys[0]
	list, err := readList(f.logs)
	if err != nil {
		return err
	}
	store, err := state.Open(state.Config{Dir: f.state, GuardDir: f.guard, Markers: markers, Witness: key.Verifier(), Logger: log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	if err := importList(store, f.logs, list, log); err != nil {
		return err
	}
	gate, err := openGate(f, store.Origins(), log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gate.close()) }()
	ln, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen: %w (hint: --listen 127.0.0.1:0 for any free port)", err)
	}
	handler := server.New(server.Config{Store: store, Key: key, More: keys[1:], Audit: gate.hook(), Now: time.Now, Logger: log})
	hs := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: time.Minute, IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan error, 1)
	go func() { ended <- hs.Serve(ln) }()

	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)

	say := ready{Listening: "http://" + ln.Addr().String(), Name: key.Verifier().Name, VKey: key.Verifier().String()}
	for _, k := range keys {
		say.VKeys = append(say.VKeys, k.Verifier().String())
	}
	line, err := json.Marshal(say)
	if err == nil {
		err = p.print(append(line, '\n'))
	}
	log.Info("the witness is ready", "listening", ln.Addr().String(), "name", key.Verifier().Name, "logs", len(store.Origins()), "evidence", store.EvidenceCount())
	for err == nil {
		select {
		case <-hup:
			// A list that cannot be read changes nothing; the witness goes on.
			if list, lerr := readList(f.logs); lerr != nil {
				log.Error("the log list was not read again", "why", lerr.Error())
			} else if lerr := importList(store, f.logs, list, log); lerr != nil {
				log.Error("the log list was not added", "why", lerr.Error())
			}
			continue
		case <-ctx.Done():
			log.Info("stopping")
		case err = <-ended:
		case <-store.Failed():
			err = fmt.Errorf("%w: %w (hint: a new start repeats all checks; see the disk first)", state.ErrStopped, store.Err())
		}
		break
	}
	handler.Drain()
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainLimit)
	defer cancel()
	if serr := hs.Shutdown(stop); serr != nil {
		err = errors.Join(err, fmt.Errorf("requests in flight did not end within %s", drainLimit), hs.Close())
	}
	return err
}

// loadKeys reads the keys of one witness, of which the state belongs to the
// first, and names the marker beside each file.
func loadKeys(files []string) (keys []*server.Key, markers []string, err error) {
	for _, file := range files {
		k, err := server.LoadKey(file)
		if err != nil {
			return nil, nil, err
		}
		for _, other := range keys {
			if other.Verifier().Type == k.Verifier().Type {
				return nil, nil, usagef("%s holds a second key of type %s; one of each type is used", file, k.Verifier().Type)
			}
			if other.Verifier().Name != k.Verifier().Name {
				return nil, nil, usagef("%s is a key of %s, the other of %s; a witness has one name", file, k.Verifier().Name, other.Verifier().Name)
			}
		}
		keys, markers = append(keys, k), append(markers, file+".state")
	}
	return keys, markers, nil
}

func readList(path string) ([]state.Log, error) {
	b, err := durable.ReadFile(path, state.MaxListBytes)
	if err != nil {
		return nil, fmt.Errorf("read the log list: %w", err)
	}
	list, err := state.ParseLogList(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

func importList(store *state.Store, path string, list []state.Log, log *slog.Logger) error {
	done, err := store.Import(list)
	if err != nil {
		return err
	}
	log.Info("read the log list", "file", path, "added", done.Added, "known", done.Known)
	for i, origin := range done.Ignored {
		if i == 20 {
			log.Warn("and more logs that differ", "count", len(done.Ignored)-i)
			break
		}
		log.Warn("the list has another key or qpd for a known log: it stays as it is", "origin", origin)
	}
	return nil
}
