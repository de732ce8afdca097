// Command seatsmith turns a fine-tuned language model into a proven, quantized checkpoint.
//
// The command line is a thin skin: every command reads its flags, makes one call into an internal package, prints, and
// turns the answer into an exit code: 0 good, 1 the answer is no, 2 usage, 3 could not find out. With --json one document
// goes to stdout and nothing else; what people read goes to stderr. Only this package reads flags and the environment.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
