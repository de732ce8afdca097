package playbook

import "strings"

// Chapter is a part of docs/playbook.md.
type Chapter struct {
	ID    string
	Title string
	Lead  string // what the chapter is for
}

// Chapters are the parts of docs/playbook.md, in their order. A superseded entry keeps its chapter and is printed in
// "superseded".
var Chapters = []Chapter{
	{"schemes", "Which scheme, and which cannot be served", "A scheme is a choice of server and card as much as of accuracy. This is the decision, with what looks possible and is not."},
	{"recipes", "Reference recipes and what carries them", "What was shipped, measured or recommended, and the parts without which each of them breaks."},
	{"landmines", "Landmines, by cost", "Errors first: a model that does not load, or loads and is another. Then what costs speed or trust, then what is good to know. Rules are enforced by code; a lesson says so."},
	{"pipeline", "The shape of the pipeline", "The order of work, and why each step stands where it does."},
	{"gate", "The acceptance gate", "What a new checkpoint must show before it takes traffic."},
	{"measurement", "How measurement lies", "Every one of these gave a number that was believed."},
	{"hardware", "Hardware and co-residency", "What a card can do, and what its neighbours notice."},
	{"services", "Services beside the seat", "The training worker, the deploy listener and its watcher."},
	{"numbers", "Numbers to beat", "Measured on one workload and dated; a claim of speed is held against them."},
	{"negatives", "Measured negatives", "What was tried, measured, and did not help."},
	{"superseded", "Superseded claims", "Kept with their date and their true cause, so that nobody finds an old note and believes it again."},
}

func chapterOf(id string) *Chapter {
	for i := range Chapters {
		if Chapters[i].ID == id {
			return &Chapters[i]
		}
	}
	return nil
}

func chapterNames() string {
	var out []string
	for _, c := range Chapters {
		out = append(out, c.ID)
	}
	return strings.Join(out, ", ")
}
