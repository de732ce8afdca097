//go:build !linux

package atomicfile

// onThreadOf says that this system has no file-system user per thread.
func onThreadOf(int, func()) (ran bool) { return false }
