package verifycmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

const usage = `usage: counterfoil-verify FILE --trust TRUST_FILE [flags]
       counterfoil verify FILE --trust TRUST_FILE [flags]

Verifies a file offline, by keys that came another way: a bundle, a .tlog-proof
with its leaf, or a document that says that a log signed two histories. FILE may
be - for stdin. Flags may stand before or after it.

  --trust FILE        whose keys are trusted; no verdict without one
  --policy FILE       tlog-policy text: its logs and witnesses count in place of
                      the trust file's
  --max-age DURATION  fail if the witness quorum was met longer ago, such as 24h
  --now TIME          the clock for --max-age, RFC 3339; default: this machine's
  --json              answer with one JSON document
  --min-size N        fail if the checkpoint has fewer than N leaves
  --checkpoint FILE   fail if the bundle is older than this signed checkpoint
  --partial           accept attempts whose earlier events are not in the bundle
  --leaf FILE         FILE is a .tlog-proof of this leaf instead of a bundle
  --tlog-proof DIR    write each receipt of a verified bundle to this directory,
                      as EVENT_ID.tlog-proof and EVENT_ID.leaf
  --version           the version of this program
  --help              this text

Exit codes: 0 verified, 1 not verified, 2 could not be judged. Of a document
about two histories: 0 proven, 1 not proven, 2 could not be judged.
`

type options struct {
	file       string
	trust      string
	policy     string
	leaf       string
	checkpoint string
	tlogProof  string        // directory to write to
	maxAge     time.Duration // 0 asks for nothing
	now        time.Time     // zero is this machine's clock
	minSize    uint64
	json       bool
	partial    bool
	help       bool
	version    bool
}

// parseArgs reads flags (-name or --name, the value after a space or =) and one
// file, in any order; after -- everything is a file. On an error, options.json
// still says whether JSON was asked for.
func parseArgs(args []string) (options, error) {
	o := options{json: slices.ContainsFunc(args, func(a string) bool { return a == "--json" || a == "-json" })}
	var files []string
	seen := map[string]bool{}
	var sizeText, ageText, nowText string
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if arg == "--" {
			files = append(files, args...)
			break
		}
		if arg == "-" || !strings.HasPrefix(arg, "-") {
			files = append(files, arg)
			continue
		}
		name, value, given := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		var text *string
		var on *bool
		switch name {
		case "trust":
			text = &o.trust
		case "policy":
			text = &o.policy
		case "max-age":
			text = &ageText
		case "now":
			text = &nowText
		case "tlog-proof":
			text = &o.tlogProof
		case "leaf":
			text = &o.leaf
		case "checkpoint":
			text = &o.checkpoint
		case "min-size":
			text = &sizeText
		case "json":
			on = &o.json
		case "partial":
			on = &o.partial
		case "version":
			on = &o.version
		case "help", "h":
			on = &o.help
		default:
			return o, fmt.Errorf("unknown flag %s", strconv.Quote(arg))
		}
		if seen[name] {
			return o, fmt.Errorf("flag --%s is given twice", name)
		}
		seen[name] = true
		switch {
		case on != nil && given:
			return o, fmt.Errorf("flag --%s takes no value", name)
		case on != nil:
			*on = true
		case given:
			*text = value
		case len(args) == 0:
			return o, fmt.Errorf("flag --%s needs a value", name)
		default:
			*text, args = args[0], args[1:]
		}
		if text != nil && *text == "" {
			return o, fmt.Errorf("flag --%s needs a value", name)
		}
	}
	if o.help || o.version {
		return o, nil
	}
	if sizeText != "" {
		n, err := strconv.ParseUint(sizeText, 10, 64)
		if err != nil {
			return o, fmt.Errorf("flag --min-size: %s is not a number of leaves", strconv.Quote(sizeText))
		}
		o.minSize = n
	}
	if err := o.age(ageText, nowText); err != nil {
		return o, err
	}
	if o.leaf != "" && o.tlogProof != "" {
		return o, errors.New("flags --leaf and --tlog-proof: one reads a proof, the other writes those of a bundle")
	}
	if len(files) != 1 || files[0] == "" {
		return o, fmt.Errorf("%d files: %w", len(files), errFile)
	}
	o.file = files[0]
	stdins := 0
	for _, f := range []string{o.file, o.trust, o.policy, o.leaf, o.checkpoint} {
		if f == "-" {
			stdins++
		}
	}
	if stdins > 1 {
		return o, errors.New("only one of the files can be stdin")
	}
	return o, nil
}

// age reads --max-age and --now.
func (o *options) age(ageText, nowText string) error {
	if ageText == "" {
		if nowText != "" {
			return errors.New("flag --now is the clock for --max-age, which is not given")
		}
		return nil
	}
	var err error
	if o.maxAge, err = time.ParseDuration(ageText); err != nil || o.maxAge <= 0 {
		return fmt.Errorf("flag --max-age: %s is not a duration over 0, such as 90s, 30m or 24h", strconv.Quote(ageText))
	}
	if nowText == "" {
		return nil
	}
	if o.now, err = time.Parse(time.RFC3339, nowText); err != nil || o.now.Unix() <= 0 {
		return fmt.Errorf("flag --now: %s is not a time after 1970, such as 2026-07-28T00:00:00Z", strconv.Quote(nowText))
	}
	return nil
}
