package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the document of version --json.
type version struct {
	SchemaVersion string `json:"schemaVersion"` // counterfoil.version.v1
	Version       string `json:"version"`
	Commit        string `json:"commit,omitempty"`
	CommitTime    string `json:"commitTime,omitempty"`
	Modified      bool   `json:"modified,omitzero"` // built from changed files
	Go            string `json:"go"`
	OS            string `json:"os"`
	Arch          string `json:"arch"`
}

// Version is the version of this program, from its build.
func Version() string { return readVersion().Version }

func readVersion() version {
	v := version{SchemaVersion: "counterfoil.version.v1", Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.CommitTime = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (c *cli) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Show the version of this program",
		Example: "  counterfoil version --json",
		Args:    want(0, 0),
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if c.json {
				return c.printJSON(v)
			}
			_, err := fmt.Fprintf(c.env.Stdout, "counterfoil %s %s %s/%s\n", v.Version, v.Go, v.OS, v.Arch)
			return err
		},
	}
	c.addJSONFlag(cmd)
	return cmd
}
