package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"counterfoil/internal/doctor"
	"counterfoil/ledger/client"
)

// doctorReport is the document of doctor --json.
type doctorReport struct {
	SchemaVersion string         `json:"schemaVersion"`
	OK            bool           `json:"ok"`      // no check fails
	Running       bool           `json:"running"` // a ledger answered, or has the directory
	Data          string         `json:"data,omitempty"`
	Server        string         `json:"server,omitempty"`
	Checks        []doctor.Check `json:"checks"`
	// Status is what the ledger answered, counterfoil.status.v1; absent if none did.
	Status jsontext.Value `json:"status,omitzero"`
}

func (c *cli) doctorCommand() *cobra.Command {
	var cluster bool
	var cfg doctor.Config
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look at a ledger, and say what is wrong and what to do next",
		Long: `doctor shows a running ledger's own checks; with --data it looks at the data directory too,
whether a ledger runs on it or not, and changes nothing there. For each check that is
not well it says what that means, what to type next, and which runbook tells more.

It exits with 1 if a check fails. A failing check is about storage, connections, keys or
witnesses; it is never a judgement on evidence.`,
		Example: `  counterfoil doctor
  counterfoil doctor --data /var/lib/counterfoil --listen 127.0.0.1:8480
  counterfoil doctor --data data --nats nats://ledger@nats:4222 --nats-password-file password
  counterfoil doctor --cluster
  counterfoil doctor --json`,
		Args: want(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cluster {
				return c.doctorCluster(cmd.Context())
			}
			if cfg.Dir == "" && (cfg.NATS != "" || cfg.Listen != "") {
				return usagef("--data DIR", "--nats and --listen are looked at for a data directory")
			}
			return c.doctor(cmd.Context(), cfg)
		},
	}
	c.addClientFlags(cmd)
	f := cmd.Flags()
	f.BoolVar(&cluster, "cluster", false, "ask all nodes of the ledger, and compare their trees by the tiles that they serve")
	f.StringVar(&cfg.Dir, "data", "", "look at this data directory too (default: ask a running ledger alone)")
	f.StringVar(&cfg.Listen, "listen", "", "address of the HTTP API: is it free, if the ledger is stopped?")
	f.StringVar(&cfg.NATS, "nats", "", "URLs of the external NATS, as for serve: can it be used?")
	f.StringVar(&cfg.NATSCreds, "nats-creds", "", "credentials file for --nats")
	f.StringVar(&cfg.NATSPasswordFile, "nats-password-file", "", "file with the password of the user that --nats names")
	return cmd
}

func (c *cli) doctor(ctx context.Context, cfg doctor.Config) error {
	rep := doctorReport{SchemaVersion: doctor.Schema, OK: true}
	if cfg.Dir != "" {
		cfg.Program, cfg.Now, cfg.DiskReserve = c.env.Program, c.env.Now(), diskReserve
		if abs, err := filepath.Abs(cfg.Dir); err == nil {
			cfg.Dir = abs
		}
		rep.Data = cfg.Dir
		rep.Checks, rep.Running = doctor.Directory(ctx, cfg)
		if c.client.tokenFile == "" {
			c.client.tokenFile = filepath.Join(cfg.Dir, tokenName)
		}
	}
	var status *client.Status
	if cfg.Dir == "" || rep.Running {
		a, server, err := c.askStatus(ctx)
		switch rep.Server = server; {
		case err == nil:
			status, rep.Status, rep.Running = &a.Value, a.Raw, true
			for _, ch := range a.Value.Checks {
				rep.Checks = append(rep.Checks, explained(c.env.Program, ch))
			}
		case cfg.Dir == "" || ctx.Err() != nil:
			return err
		default:
			rep.Checks = append(rep.Checks, doctor.Explain(c.env.Program, doctor.Check{Name: "server", Result: doctor.Fails, Detail: err.Error()}))
		}
	}
	for _, ch := range rep.Checks {
		rep.OK = rep.OK && ch.Result != doctor.Fails
	}
	err := c.showDoctor(&rep, status)
	if err == nil && !rep.OK {
		err = exitCode(exitFailed)
	}
	return err
}

// diskReserve is what a ledger keeps free at least, as docs/runbooks/disk-full.md has it.
const diskReserve = 16 << 20

func (c *cli) askStatus(ctx context.Context) (*client.Answer[client.Status], string, error) {
	cl, err := c.connect(false)
	if err != nil {
		return nil, "", err
	}
	defer cl.Close()
	a, err := cl.Status(ctx)
	return a, cl.Server(), err
}

// explained is a check of a running ledger. One that passes with a hint is worth a
// look.
func explained(program string, ch client.Check) doctor.Check {
	out := doctor.Check{Name: ch.Name, Result: doctor.OK, Detail: ch.Detail}
	switch {
	case !ch.OK:
		out.Result = doctor.Fails
	case ch.Hint != "":
		out.Result = doctor.Warning
	}
	return doctor.Explain(program, out)
}

func (c *cli) showDoctor(rep *doctorReport, status *client.Status) error {
	if c.json {
		return c.printJSON(rep)
	}
	out := c.env.Stdout
	if status != nil {
		if err := c.showStatus(rep.Server, status); err != nil {
			return err
		}
	} else if err := pairs(out, "data", rep.Data, "state", map[bool]string{false: "stopped", true: "a process has the directory, and no ledger answers"}[rep.Running]); err != nil {
		return err
	}
	rows := [][]string{{"check", "result", "detail"}}
	words := map[string]string{doctor.Fails: "FAILS", doctor.Warning: "look"}
	for _, ch := range rep.Checks {
		word := ch.Result
		if w, ok := words[word]; ok {
			word = w
		}
		rows = append(rows, []string{ch.Name, word, ch.Detail})
	}
	fmt.Fprintln(out)
	if err := table(out, rows); err != nil {
		return err
	}
	for _, ch := range rep.Checks {
		if ch.Result == doctor.OK {
			continue
		}
		fmt.Fprintf(out, "\n%s\n", plain(ch.Name))
		if err := pairs(out, "  means", ch.Meaning, "  next", strings.Join(ch.Next, "; then "), "  see", ch.Runbook); err != nil {
			return err
		}
	}
	if status != nil {
		for _, ch := range status.Checks {
			if !ch.OK && ch.Hint != "" {
				c.say("hint: %s: %s", plain(ch.Name), plain(ch.Hint))
			}
		}
	}
	return nil
}

func (c *cli) showStatus(server string, s *client.Status) error {
	ready := "ready"
	if !s.Ready {
		ready = "not ready: it takes no events now"
		fails := slices.DeleteFunc(slices.Clone(s.Checks), func(ch client.Check) bool { return ch.OK })
		if len(fails) == 1 && fails[0].Name == "tiles" {
			ready = "not ready: it takes events, but a file of the log is damaged"
		} else if len(fails) > 0 && !slices.ContainsFunc(fails, func(ch client.Check) bool { return !strings.HasPrefix(ch.Name, "witness ") }) {
			ready = "not ready: it takes events, but a witness is at odds with the log"
		}
	}
	witnessed := ""
	if s.WitnessedSize > 0 {
		witnessed = fmt.Sprintf(", %d witnessed", s.WitnessedSize)
	}
	return pairs(c.env.Stdout,
		"ledger", server,
		"origin", s.Origin,
		"tenant", s.Tenant,
		"version", s.Version,
		"durability", s.Durability,
		"stream", fmt.Sprintf("%d messages", s.StreamLast),
		"log", fmt.Sprintf("%d durable leaves, %d published%s, %d in the views", s.LogSize, s.PublishedSize, witnessed, s.ViewSize),
		"parked", fmt.Sprintf("%d leaves that do not count", s.Parked),
		"state", ready,
	)
}
