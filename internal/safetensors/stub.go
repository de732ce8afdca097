package safetensors

// Spec is a tensor to be written.
type Spec struct {
	Name  string
	Dtype Dtype
	Shape []int64
}

// Layout is the complete header of a file to be written: every offset is known before the first byte.
type Layout struct {
	Header  []byte // length prefix, JSON, spaces to a multiple of 8
	Tensors []Tensor
	Size    int64
}

// NewLayout lays tensors out like the upstream library: wider elements first, then by name.
func NewLayout(specs []Spec, metadata map[string]string) (*Layout, error) { panic("stub") }

// Writer fills a laid-out file in any order, from several goroutines.
type Writer struct{}

// Create makes path (which must not exist), reserves its whole size (a full disk shows here) and writes the header.
func Create(path string, l *Layout) (*Writer, error) { panic("stub") }

// WriteAt writes p at byte off of the named tensor.
func (w *Writer) WriteAt(name string, p []byte, off int64) error { panic("stub") }

// Close syncs the file; it fails if any tensor was not written exactly once in full.
func (w *Writer) Close() error { panic("stub") }

// Abort closes and removes the file.
func (w *Writer) Abort() error { panic("stub") }

// IndexBytes renders model.safetensors.index.json for files (tensor name -> file name).
func IndexBytes(weightMap map[string]string, totalSize int64) []byte { panic("stub") }
