// Package peer asks a second engine for its opinion of a render: github.com/ardanlabs/jinja, in a process of its own.
//
// # Why
//
// Whether a render is what the server will see is the question that everything else stands on, and one implementation cannot
// judge itself. The library renders 429 of 443 reference conversations as Python does (measured December 2026, v1.12.0) and
// shares no line with package template. Where both give the same bytes, both would have to be wrong in the same way.
//
// # Why a process of its own
//
// A runaway recursion overflows the stack, and a Go program does not survive that; the library has no bound on steps or
// memory either. So it runs in a child: the same binary, started through a hidden command, with limits on processor time,
// memory and stack, and a deadline for each answer. What is in the child's reach is what it was sent. A template is compiled
// there once and every row is rendered there: one start of a few milliseconds and one round trip a row, which is cheap enough
// that no template is ever "known" and let into this process.
//
// # Order of calls
//
// The program's hidden command calls [Child]. Everybody else makes a [Client] with [Start], calls [Client.Render] for each
// row and [Client.Close] at the end. A child that died or hung is started again for the next row.
//
// # What it refuses to know
//
// The library is laxer than Python: it renders where Python raises. So its opinion is asked only of rows that package
// template renders, and only its text counts. No answer is never agreement: [ErrNoAnswer] says so.
//
// # Concurrency
//
// A Client answers one question at a time; it may be called from any goroutine.
package peer
