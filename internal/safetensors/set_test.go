package safetensors_test

import (
	"path/filepath"
	"testing"

	"seatsmith/internal/safetensors"
)

// The fixtures were written by Python (safetensors and transformers), so they say what a real folder looks like.
func TestFixturesOpenWithoutProblems(t *testing.T) {
	for _, name := range []string{"tiny", "tiny-finetune", "moe"} {
		t.Run(name, func(t *testing.T) {
			s, err := safetensors.OpenSet(filepath.Join("..", "..", "testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for _, p := range s.Problems {
				t.Errorf("problem: %v", &p)
			}
			refs := s.Refs()
			if len(refs) != len(s.Index.WeightMap) {
				t.Errorf("%d tensors, the index lists %d", len(refs), len(s.Index.WeightMap))
			}
			for _, r := range refs {
				if want := s.Index.WeightMap[r.Tensor.Name]; r.File.Name != want {
					t.Errorf("%s is read from %s, the index says %s", r.Tensor.Name, r.File.Name, want)
				}
				data := make([]byte, r.Tensor.Bytes())
				if err := r.ReadAt(data, 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
