//go:build !linux

package tools

import (
	"os"
	"os/exec"
	"time"
)

func ownGroup(*exec.Cmd) {}

// gone cannot tell here without reaping the child, so it waits and says no.
func gone(_ *exec.Cmd, wait time.Duration) bool {
	time.Sleep(wait)
	return false
}

func interrupt(cmd *exec.Cmd) { _ = cmd.Process.Signal(os.Interrupt) }

func kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
