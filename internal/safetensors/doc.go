// Package safetensors reads checkpoint files without trusting them and writes them without a second pass.
package safetensors
