package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
)

// Listening starts a program of ours that serves, and returns its URL once it says that
// it answers. After an error it does not run.
func Listening(cmd *exec.Cmd) (url string, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var ready struct {
		Listening string `json:"listening"`
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &ready)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return "", fmt.Errorf("%s ended before it was ready: %w", cmd.Path, err)
	}
	return ready.Listening, nil
}
