package verify_test

import (
	"strings"
	"testing"
)

func TestABadSpeculativeConfigIsToldOnce(t *testing.T) {
	f := whole(t)
	f.save()
	for config, said := range map[string]string{
		"'{bad'": "no JSON object",
		"mtp":    "no JSON object",
		"'[]'":   "no JSON object",
		`'{"method":"mtp","num_speculative_tokens":0}'`:              "want a whole number above 0",
		`'{"method":"mtp","num_speculative_tokens":"many"}'`:         "want a whole number above 0",
		`'{"method":"mtp"}'`:                                         "num_speculative_tokens is missing",
		`'{"method":"mtp","num_speculative_tokens":null}'`:           "num_speculative_tokens is missing",
		`'{"method":"NEXTN","num_speculative_tokens":1}'`:            "SGLang's name",
		`'{"method":"mtp","num_speculative_tokens":1,"tokens":"2"}'`: `"tokens" is no key`,
	} {
		r := doctor(t, f.dir, command(t, "/m --no-enable-prefix-caching --speculative-config "+config))
		only(t, r, "serve-args")
		if got := single(t, r, "serve-args"); !strings.Contains(got.Message, said) {
			t.Errorf("%s: %s", config, got)
		}
	}
}
