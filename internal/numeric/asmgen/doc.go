// Command asmgen writes the Go assembly of package numeric: one file per instruction set.
//
//	go run ./asmgen -dir .      # in internal/numeric; go generate does it
//
// # Why a generator
//
// The kernels are long straight runs of vector instructions whose only variety is in register numbers
// and in a few constants. Written as Go functions, each step has one name, one comment and one place to
// be right; the .s files are its output, committed so that building needs no tool. A test here fails if
// they are not what the generator writes.
//
// # Vocabulary
//
// A program is one .s file. A kernel is one TEXT symbol, declared in numeric's kernels_amd64.go. A pool
// constant is a 32-bit word (or a shuffle mask) in the file's read-only data. A group is what one turn
// of a kernel's loop takes: 16 blocks or 8 blocks of NVFP4, 16, 32 or 64 elements otherwise. Kernels take whole
// groups only; callers copy what is left over into a padded buffer.
//
// # Order of calls
//
// generate makes every program; each adds its kernels, then text renders it. Operands are in the order
// of Go's assembler: sources first, last first, destination last; so VDIVPS b, a, dst is dst = a / b,
// and of VMINPS b, a, dst it is b that comes out when either is NaN.
//
// # What it refuses to know
//
// Which machine runs what: numeric dispatches at run time. It uses only instructions that Go's
// assembler knows, so that vet checks every frame.
//
// # Concurrency
//
// None; it is a command that writes two files.
package main
