package plan

import (
	"encoding/hex"
	"encoding/json"
	"fmt"

	"lukechampine.com/blake3"
)

// Hash identifies the plan: BLAKE3, in hex, of its JSON without findings (the plan without items, then the items, one a
// line). An unfinished output is resumed only under the same hash. It depends on no path, but on the program's version.
func (p *Plan) Hash() string {
	h := blake3.New(32, nil)
	enc := json.NewEncoder(h)
	head := *p
	head.Items, head.Findings = nil, nil
	if err := enc.Encode(head); err != nil { // only an invalid Config can do this, and Make renders it
		panic(fmt.Sprintf("plan: hashing: %v", err))
	}
	for i := range p.Items {
		if err := enc.Encode(&p.Items[i]); err != nil {
			panic(fmt.Sprintf("plan: hashing %s: %v", p.Items[i].Source, err))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
