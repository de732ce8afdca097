package plan

import "testing"

// BenchmarkPlan plans as many tensors as the largest mixture of experts has: 300,000.
func BenchmarkPlan(b *testing.B) {
	src := qwen(25_000)
	for b.Loop() {
		p, err := decide(src, Options{})
		if err != nil {
			b.Fatal(err)
		}
		p.Hash()
	}
	b.ReportMetric(float64(len(src.tensors)), "tensors")
}
