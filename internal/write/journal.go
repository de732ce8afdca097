package write

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"seatsmith/internal/atomicfile"
	"seatsmith/internal/model"
	"seatsmith/internal/playbook"
)

// journalFile is the name of the journal inside the unfinished folder.
const journalFile = ".seatsmith-journal.jsonl"

// planLine is the first line of a journal: whose work this folder is.
type planLine struct {
	Schema  int    `json:"schema"` // 1
	Plan    string `json:"plan"`
	Version string `json:"version"`
}

// shardLine is one finished shard. It stands in the journal only after the file has its final name and is durable.
type shardLine struct {
	File string `json:"file"`
	model.FileHash
	Native   map[string]float32       `json:"native,omitempty"`   // module -> global scale
	Findings []playbook.Finding       `json:"findings,omitempty"` // what coding this shard found, so that a resumed run says it too
	Casts    map[string]model.Rounded `json:"casts,omitempty"`    // by role: kept tensors that were rounded to BF16
	Sources  map[string]identity      `json:"sources"`            // "body/model-00001.safetensors" -> its state when it was read
}

// journal appends lines, each durable when the call returns.
type journal struct {
	path string
	mu   sync.Mutex
	f    *os.File
	text []byte // everything in it
}

// startJournal begins the journal of an empty folder.
func startJournal(dir string, head planLine) (*journal, error) {
	j := &journal{path: filepath.Join(dir, journalFile)}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting the journal: %w", err)
	}
	j.f = f
	if err := j.append(head); err != nil {
		return nil, errors.Join(err, j.close())
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

// continueJournal opens a journal whose good part is text; a torn rest is cut off.
func continueJournal(dir string, text []byte) (*journal, error) {
	j := &journal{path: filepath.Join(dir, journalFile), text: bytes.Clone(text)}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	j.f = f
	if err := errors.Join(f.Truncate(int64(len(text))), f.Sync()); err != nil {
		return nil, errors.Join(fmt.Errorf("cutting the torn end off the journal: %w", err), j.close())
	}
	return j, nil
}

// append adds one line and makes it durable.
func (j *journal) append(line any) error {
	b, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("journalling: %w", err)
	}
	b = append(b, '\n')
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, err := j.f.Write(b); err != nil {
		return fmt.Errorf("writing the journal: %w", err)
	}
	if err := j.f.Sync(); err != nil {
		return fmt.Errorf("syncing the journal: %w", err)
	}
	j.text = append(j.text, b...)
	return nil
}

func (j *journal) close() error {
	if j == nil || j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	return err
}

// remove deletes the journal: the folder is whole.
func (j *journal) remove() error {
	if err := j.close(); err != nil {
		return fmt.Errorf("closing the journal: %w", err)
	}
	if err := os.Remove(j.path); err != nil {
		return fmt.Errorf("removing the journal: %w", err)
	}
	return nil
}

// restore puts a removed journal back, so that the folder can be resumed.
func (j *journal) restore() error {
	if err := atomicfile.WriteFile(j.path, j.text, 0o644); err != nil {
		return fmt.Errorf("putting the journal back: %w", err)
	}
	return nil
}

// readJournal takes a journal apart. good is the part of text that whole, valid lines make up; head is nil when there
// is not even a first line. A line that does not parse ends the good part: what it told of is written again.
func readJournal(text []byte) (head *planLine, lines []shardLine, good []byte) {
	rest := text
	for {
		line, after, whole := bytes.Cut(rest, []byte{'\n'})
		if !whole {
			break
		}
		if head == nil {
			var h planLine
			if json.Unmarshal(line, &h) != nil || h.Schema == 0 {
				break
			}
			head = &h
		} else {
			var l shardLine
			if json.Unmarshal(line, &l) != nil || l.File == "" {
				break
			}
			lines = append(lines, l)
		}
		rest = after
	}
	return head, lines, text[:len(text)-len(rest)]
}
