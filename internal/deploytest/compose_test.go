package deploytest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// compose is the part of the compose format that the file uses; anything else in it is
// a mistake or has to be thought about here.
type compose struct {
	Name     string             `yaml:"name"`
	Safe     service            `yaml:"x-safe"`
	Services map[string]service `yaml:"services"`
}

type service struct {
	Image       string            `yaml:"image"`
	User        string            `yaml:"user"`
	ReadOnly    bool              `yaml:"read_only"`
	CapDrop     []string          `yaml:"cap_drop"`
	SecurityOpt []string          `yaml:"security_opt"`
	Restart     string            `yaml:"restart"`
	Ulimits     map[string]int    `yaml:"ulimits"`
	Command     []string          `yaml:"command"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	Tmpfs       []string          `yaml:"tmpfs"`
	Environment map[string]string `yaml:"environment"`
	StopGrace   string            `yaml:"stop_grace_period"`
	Build       struct {
		Context    string `yaml:"context"`
		Dockerfile string `yaml:"dockerfile"`
		Target     string `yaml:"target"`
	} `yaml:"build"`
	Logging struct {
		Driver  string            `yaml:"driver"`
		Options map[string]string `yaml:"options"`
	} `yaml:"logging"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Healthcheck struct {
		Test        []string `yaml:"test"`
		Interval    string   `yaml:"interval"`
		Timeout     string   `yaml:"timeout"`
		Retries     int      `yaml:"retries"`
		StartPeriod string   `yaml:"start_period"`
	} `yaml:"healthcheck"`
}

func readCompose(t testing.TB) compose {
	t.Helper()
	var c compose
	strictYAML(t, "deploy/compose.yaml", &c)
	return c
}

func TestComposeIsBounded(t *testing.T) {
	c := readCompose(t)
	for _, name := range []string{"nats", "ledger", "witness-1", "witness-2", "prometheus", "grafana"} {
		s, ok := c.Services[name]
		if !ok {
			t.Errorf("no service %s", name)
			continue
		}
		pinned := regexp.MustCompile(`^[a-z/-]+:(v?[0-9]+\.[0-9]+\.[0-9]+(-alpine)?|\$\{COUNTERFOIL_VERSION:-local\})$`)
		if !pinned.MatchString(s.Image) {
			t.Errorf("%s: image %q is not pinned by version", name, s.Image)
		}
		if !s.ReadOnly || s.User == "" || strings.HasPrefix(s.User, "0") || s.User == "root" || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Ulimits["core"] != 0 || s.Logging.Options["max-size"] == "" {
			t.Errorf("%s is not confined: %+v", name, s)
		}
		if len(s.Healthcheck.Test) < 2 || s.Healthcheck.Test[0] != "CMD" || s.Healthcheck.Timeout == "" || s.Healthcheck.Retries == 0 {
			t.Errorf("%s: health check %q", name, s.Healthcheck.Test)
		}
		if len(s.Ports) == 0 {
			t.Errorf("%s has no port", name)
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s: port %s is not on loopback", name, p)
			}
		}
		writable := 0
		for _, v := range s.Volumes {
			from, rest, ok := strings.Cut(v, ":/")
			if !ok {
				t.Errorf("%s: volume %q", name, v)
			}
			if !strings.HasSuffix(rest, ":ro") {
				writable++
			}
			if own, isOwn := strings.CutPrefix(from, "./"); isOwn {
				if _, err := os.Stat(filepath.Join(root, "deploy", own)); err != nil || !strings.HasSuffix(rest, ":ro") {
					t.Errorf("%s: %s: %v", name, v, err)
				}
			} else if !strings.HasPrefix(from, "${RUN:?}/") {
				t.Errorf("%s: volume %q is not in the folder that setup.sh makes", name, v)
			}
		}
		if writable != 1 {
			t.Errorf("%s writes to %d volumes, want its data alone", name, writable)
		}
		for d := range s.DependsOn {
			if _, ok := c.Services[d]; !ok {
				t.Errorf("%s depends on %s, which is not there", name, d)
			}
		}
	}
	if len(c.Services) != 6 {
		t.Errorf("%d services", len(c.Services))
	}
}

// Every flag of the files is one that the program has.
func TestEveryFlagIsKnown(t *testing.T) {
	out := binaries(t)
	c := readCompose(t)
	commands := [][]string{
		append([]string{"counterfoil"}, c.Services["ledger"].Command...),
		append([]string{"counterfoil-witness"}, c.Services["witness-1"].Command...),
		append([]string{"counterfoil-witness"}, c.Services["witness-2"].Command...),
	}
	for _, s := range c.Services {
		if strings.HasPrefix(s.Healthcheck.Test[1], "/usr/local/bin/") {
			commands = append(commands, s.Healthcheck.Test[1:])
		}
	}
	for _, unit := range []string{"counterfoil", "counterfoil-witness"} {
		line := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindStringSubmatch(text(t, "deploy/"+unit+".service"))
		commands = append(commands, strings.Fields(line[1]))
	}
	for _, st := range stages(t) {
		commands = append(commands, append(slices.Clone(st.entrypoint), st.cmd...), st.health)
	}
	for _, args := range commands {
		name := filepath.Base(args[0])
		dir := "bin"
		if name == "counterfoil-witness" {
			dir = "witness"
		}
		help, err := exec.Command(filepath.Join(out, dir, name), args[1], "--help").CombinedOutput()
		if err != nil {
			t.Errorf("%s %s: %v\n%s", name, args[1], err, help)
			continue
		}
		for _, a := range args[2:] {
			flag, _, _ := strings.Cut(a, "=")
			if strings.HasPrefix(flag, "--") && !regexp.MustCompile(`(?m)^ .*`+flag+`\b`).Match(help) {
				t.Errorf("%s %s has no flag %s", name, args[1], flag)
			}
		}
	}
}
