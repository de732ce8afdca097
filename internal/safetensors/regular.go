package safetensors

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// OpenRegular opens any regular file for reading, through links, and tells its size. A FIFO, a device or a folder, from
// which a read could block or never end, is refused by what it is. An absent file gives an error that is fs.ErrNotExist.
func OpenRegular(path string) (*os.File, int64, error) {
	f, size, p := openRegular(path)
	if p == nil {
		return f, size, nil
	}
	if p.Err != nil {
		return nil, 0, p.Err
	}
	return nil, 0, errors.New(path + ": " + strings.Replace(p.Message, ", not a safetensors file", ", not a regular file", 1))
}

// ReadRegular reads a whole regular file that has no business being larger than limit bytes.
func ReadRegular(path string, limit int64) ([]byte, error) {
	f, size, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size <= limit {
		data, err := io.ReadAll(io.LimitReader(f, limit+1))
		if err != nil || int64(len(data)) <= limit {
			return data, err
		}
	}
	return nil, fmt.Errorf("%s: larger than %d bytes", filepath.Base(path), limit)
}
