//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killWithChildren puts the command into a process group of its own and makes
// the end of its context kill the group: go test would leave its test binaries
// behind.
func killWithChildren(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
