package peer

import "golang.org/x/sys/unix"

// limit asks the system for bounds on this process; where it refuses, the deadline of the parent still holds.
func limit() {
	for resource, most := range map[int]uint64{
		unix.RLIMIT_AS:    8 << 30, // the Go runtime reserves address space that it never uses
		unix.RLIMIT_CPU:   600,     // seconds, for all rows together
		unix.RLIMIT_CORE:  0,
		unix.RLIMIT_FSIZE: 0, // no file grows
	} {
		_ = unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: most}) // see above
	}
}
