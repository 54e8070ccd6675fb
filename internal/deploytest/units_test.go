package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestUnits(t *testing.T) {
	out := binaries(t)
	for unit, dir := range map[string]string{"counterfoil": "bin", "counterfoil-witness": "witness"} {
		file := text(t, "deploy/"+unit+".service")
		seen := map[string]string{}
		section := ""
		for i, line := range strings.Split(file, "\n") {
			switch {
			case line == "" || strings.HasPrefix(line, "#"):
			case strings.HasPrefix(line, "["):
				section = line
			default:
				name, value, ok := strings.Cut(line, "=")
				if !ok || section == "" || !regexp.MustCompile(`^[A-Z][A-Za-z]+$`).MatchString(name) {
					t.Errorf("%s:%d: %q", unit, i+1, line)
				}
				seen[name] = value
			}
		}
		for name, want := range map[string]string{"DynamicUser": "yes", "NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes",
			"PrivateDevices": "yes", "MemoryDenyWriteExecute": "yes", "CapabilityBoundingSet": "", "LimitCORE": "0", "UMask": "0077", "StateDirectory": unit,
			"StateDirectoryMode": "0700", "Restart": "on-failure", "IPAddressDeny": "any", "IPAddressAllow": "localhost", "SystemCallArchitectures": "native"} {
			if got, ok := seen[name]; !ok || got != want {
				t.Errorf("%s: %s=%q, want %q", unit, name, got, want)
			}
		}
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			t.Log("systemd-analyze is not here: the directives alone were looked at")
			continue
		}
		path := filepath.Join(t.TempDir(), unit+".service")
		// The program is looked for where the unit says.
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(file, "/usr/local/bin/", filepath.Join(out, dir)+"/")), 0o600); err != nil {
			t.Fatal(err)
		}
		if b := run(t, "systemd-analyze", "verify", "--man=no", path); strings.TrimSpace(b) != "" {
			t.Errorf("%s: %s", unit, b)
		}
		if b, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", path).CombinedOutput(); err != nil {
			t.Errorf("%s is more exposed than 2.0: %s", unit, b[max(0, len(b)-300):])
		}
	}
}
