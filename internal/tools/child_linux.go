package tools

import (
	"errors"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup makes the child the leader of a process group.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// gone waits at most so long for the child to end, and does not reap it: until it is reaped its number, and with it that of
// its group, belongs to nobody else.
func gone(cmd *exec.Cmd, wait time.Duration) bool {
	for deadline := time.Now().Add(wait); ; time.Sleep(5 * time.Millisecond) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if err == nil && info.Signo == int32(unix.SIGCHLD) || errors.Is(err, unix.ECHILD) {
			return true
		}
		if !time.Now().Before(deadline) {
			return false
		}
	}
}

func interrupt(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGTERM) } // whether it heeds it, gone tells

func kill(cmd *exec.Cmd) { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) } // nobody may be left to kill
