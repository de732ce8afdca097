package verify

import (
	"slices"

	"seatsmith/internal/playbook"
)

// values judges what config.json says beside sizes: what no tensor shows and the server reads all the same.
func (j *judge) values() {
	for _, v := range j.srv.Values(j.config) {
		if subject := "config.json: " + v.Key; slices.ContainsFunc(j.notes.entries, func(e *note) bool { return e.finding.Subject == subject }) {
			continue // told already, by what it is beside unservable
		}
		f := playbook.New("config-values", "config.json: "+v.Key, v.Message, "take the value from the config.json of the model that was quantized")
		if !v.Serious {
			f = f.As(playbook.Warning)
		}
		j.blameConfig()
		j.add(f)
	}
}
