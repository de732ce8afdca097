package token

// pairs maps two neighbouring symbols to the rank of their merge and the symbol it makes. It is an open-addressing table:
// looking a pair up is most of what an encoder does.
type pairs struct {
	keys []uint64 // pair+1; 0 is free
	vals []merge
	mask uint64
}

type merge struct {
	rank, id int32
}

func newPairs(n int) pairs {
	size := uint64(16)
	for size < 2*uint64(n) {
		size *= 2
	}
	return pairs{keys: make([]uint64, size), vals: make([]merge, size), mask: size - 1}
}

func pairKey(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) + 1 }

func (p *pairs) slot(key uint64) uint64 {
	h := key * 0x9E3779B97F4A7C15
	i := (h ^ h>>29) & p.mask
	for p.keys[i] != 0 && p.keys[i] != key {
		i = (i + 1) & p.mask
	}
	return i
}

// set keeps the last of equal pairs, as the library's table does.
func (p *pairs) set(left, right, rank, id int32) {
	key := pairKey(left, right)
	i := p.slot(key)
	p.keys[i], p.vals[i] = key, merge{rank, id}
}

const noRank = int32(1<<31 - 1)

func (p *pairs) get(left, right int32) merge {
	key := pairKey(left, right)
	i := p.slot(key)
	if p.keys[i] == 0 {
		return merge{rank: noRank}
	}
	return p.vals[i]
}
