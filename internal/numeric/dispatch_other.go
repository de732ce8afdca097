//go:build !amd64

package numeric

func machineLevels() []level { return []level{goLevel} }
