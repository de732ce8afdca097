package safetensors

import (
	"bytes"
	"fmt"
	"strconv"
)

// sniffLen is how much of a file's beginning sniff looks at; a Git LFS pointer is smaller than this by definition
// (git-lfs docs/spec.md: pointer files must be less than 1024 bytes).
const sniffLen = 1024

// sniff recognises what stands in place of weights after a download that went wrong: a Git LFS pointer, a web page,
// nothing, another format (public report S01: huggingface/diffusers#13559). It returns nil when head could begin a
// safetensors file. None of the marks can begin one, because as a header length each is far above maxHeader.
func sniff(head []byte, size int64, path string) *Problem {
	if size == 0 {
		return &Problem{
			Rule: "file-not-safetensors", Severity: SeverityError, File: path,
			Message: "the file is empty", Fix: "download or copy it again",
		}
	}
	if bytes.HasPrefix(head, []byte("version https://git-lfs")) || bytes.HasPrefix(head, []byte("version https://hawser")) {
		message := "this is a Git LFS pointer, not the file itself"
		if n, ok := pointerSize(head); ok {
			message = fmt.Sprintf("this is a Git LFS pointer of %d bytes; the real file has %d bytes", size, n)
		}
		return &Problem{
			Rule: "file-lfs-pointer", Severity: SeverityError, File: path,
			Message: message, Fix: "run git lfs pull in the repository, or copy the file again",
		}
	}
	text := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	for _, m := range []struct {
		mark string
		text bool // compare with the text without leading space, in lower case
		what string
	}{
		{"<!doctype", true, "an HTML page"},
		{"<html", true, "an HTML page"},
		{"<head", true, "an HTML page"},
		{"<?xml", true, "an XML text"},
		{`{"error`, true, "a server's JSON error message"},
		{`{"message`, true, "a server's JSON error message"},
		{"PK\x03\x04", false, "a zip archive (PyTorch's .bin and .pt files are such archives)"},
		{"GGUF", false, "a GGUF file"},
		{"\x89HDF\r\n", false, "an HDF5 file"},
		{"\x1f\x8b\x08", false, "a gzip archive"},
	} {
		in := head
		if m.text {
			in = text
		}
		if bytes.HasPrefix(in, []byte(m.mark)) && !plausible(head) {
			return &Problem{
				Rule: "file-not-safetensors", Severity: SeverityError, File: path,
				Message: "this is " + m.what + ", not a safetensors file", Fix: "download or copy it again",
			}
		}
	}
	return nil
}

// plausible says whether the first eight bytes can be the length of a header.
func plausible(head []byte) bool {
	return len(head) >= 8 && leUint64(head) <= maxHeader
}

// pointerSize reads the "size N" line of a Git LFS pointer.
func pointerSize(head []byte) (int64, bool) {
	for line := range bytes.Lines(head) {
		if rest, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("size ")); ok {
			n, err := strconv.ParseInt(string(rest), 10, 64)
			return n, err == nil && n >= 0
		}
	}
	return 0, false
}
