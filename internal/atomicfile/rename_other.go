//go:build !linux

package atomicfile

import "golang.org/x/sys/unix"

// renameNoReplace says that this system has no such call, so that the name is claimed by mkdir first.
func renameNoReplace(string, string) error { return unix.ENOSYS }
