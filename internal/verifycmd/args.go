package verifycmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const usage = `usage: counterfoil-verify FILE --trust TRUST_FILE [flags]
       counterfoil verify FILE --trust TRUST_FILE [flags]

Verifies a bundle offline: what it holds, by keys that came another way. FILE may
be - for stdin. Flags may stand before or after it.

  --trust FILE        whose keys are trusted; no verdict without one
  --json              answer with one JSON document
  --min-size N        fail if the checkpoint has fewer than N leaves
  --checkpoint FILE   fail if the bundle is older than this signed checkpoint
  --partial           accept attempts whose earlier events are not in the bundle
  --leaf FILE         FILE is a .tlog-proof of this leaf instead of a bundle
  --version           the version of this program
  --help              this text

Exit codes: 0 verified, 1 not verified, 2 could not be judged.
`

type options struct {
	file       string
	trust      string
	leaf       string
	checkpoint string
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
	sizeText := ""
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
	if len(files) != 1 || files[0] == "" {
		return o, fmt.Errorf("%d files: %w", len(files), errFile)
	}
	o.file = files[0]
	stdins := 0
	for _, f := range []string{o.file, o.trust, o.leaf, o.checkpoint} {
		if f == "-" {
			stdins++
		}
	}
	if stdins > 1 {
		return o, errors.New("only one of the files can be stdin")
	}
	return o, nil
}
