package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", ".", "folder of package numeric")
	flag.Parse()
	for name, text := range generate() {
		if err := os.WriteFile(filepath.Join(*dir, name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "asmgen:", err)
			os.Exit(1)
		}
	}
}

// generate returns the text of every file by name.
func generate() map[string]string {
	avx512 := newProgram("avx512")
	amaxAVX512(avx512)
	amaxF32AVX512(avx512)
	for _, of := range []element{bf16, f32} {
		nvfp4AVX512(avx512, "Modelopt", scaleModelopt, of)
		nvfp4AVX512(avx512, "CT", scaleCT, of)
		fp8AVX512(avx512, "fp8", false, of)
		fp8AVX512(avx512, "fp8Rounded", true, of)
	}
	decodeAVX512(avx512)
	widenF16AVX512(avx512)
	widenE4M3AVX512(avx512)
	roundF32AVX512(avx512)
	errorAVX512(avx512)

	avx2 := newProgram("avx2")
	amaxAVX2(avx2)
	amaxF32AVX2(avx2)
	for _, of := range []element{bf16, f32} {
		nvfp4AVX2(avx2, "Modelopt", scaleModelopt, of)
		nvfp4AVX2(avx2, "CT", scaleCT, of)
		fp8AVX2(avx2, "fp8", false, of)
		fp8AVX2(avx2, "fp8Rounded", true, of)
	}
	decodeAVX2(avx2)
	widenF16AVX2(avx2)
	widenE4M3AVX2(avx2)
	roundF32AVX2(avx2)
	errorAVX2(avx2)

	return map[string]string{
		"kernels_avx512_amd64.s": avx512.text(),
		"kernels_avx2_amd64.s":   avx2.text(),
	}
}
