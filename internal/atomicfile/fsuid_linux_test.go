package atomicfile

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// onThreadOf runs f on a thread of its own as another file-system user, or says that it has no right to.
func onThreadOf(uid int, f func()) (ran bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		unix.Setfsuid(uid)
		if got, _ := unix.SetfsuidRetUid(uid); got == uid {
			ran = true
			f()
		}
	})
	wg.Wait()
	return ran
}
