// Package dataset checks and builds calibration sets: JSON Lines of conversations, each judged by what a checkpoint's own
// chat template and tokenizer make of it.
//
// # Vocabulary
//
// A row is a line; its number counts every line of the file from 1, blank ones too, as an editor does. A row is bad when an
// error was found in it: it must not calibrate anything. A row is long when it has more tokens than the run will keep; [Fit]
// says what truncation leaves: whole turns go, the oldest first, never the system message and never the last user turn or
// what follows it. A mix is a YAML file that says how rows of several files become one set.
//
// # Order of calls
//
// [Read] cuts a file into lines. [Check] renders and tokenizes every row and gives a [Report] with findings of the playbook.
// [LoadMix] reads a mix, [Build] makes its rows: the same mix and the same rows give the same bytes, whatever the order of
// rows inside their files, and rows are copied as they are written.
//
// # What it refuses to know
//
// Nothing about statistics, weights or servers. It does not repair rows: it says what is wrong and where. It writes no file;
// [Built] carries the bytes, and the command publishes them whole.
//
// # Concurrency
//
// Check works on one goroutine; several may check different files with one prompt.Prompter.
package dataset
