package atomicfile

import "golang.org/x/sys/unix"

// renameNoReplace is renameat2(2) with RENAME_NOREPLACE: EEXIST when the name is taken.
func renameNoReplace(from, to string) error {
	for {
		err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
		if err != unix.EINTR {
			return err
		}
	}
}
