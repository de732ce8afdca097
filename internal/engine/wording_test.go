package engine

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestValuesInMessagesAreOneShortLine(t *testing.T) {
	for text, want := range map[string]string{
		"{\"v\": [\n  2,\n  1\n]}": "[2,1]", `{"v": "a b"}`: `"a b"`, `{"v": null}`: "null", `{}`: "nothing", `{"v": 1e-06}`: "1e-06",
	} {
		if got := orNull(gjson.Get(text, "v")); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	long := orNull(gjson.Get(`{"v": "`+strings.Repeat("ü", 100)+`"}`, "v"))
	if len(long) > 70 || !strings.HasSuffix(long, "…") || strings.ContainsRune(long, '\uFFFD') {
		t.Errorf("a long value is shown as %q", long)
	}
}
