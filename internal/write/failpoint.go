package write

// failpointHook, when a test sets it, is called between any two durable steps with the name of the step just taken.
var failpointHook func(name string)

// failpoint marks a place where a run can be killed. Names are unique within a run: a step that is taken once per
// shard or file carries that file's name after a colon.
func failpoint(name string) {
	if failpointHook != nil {
		failpointHook(name)
	}
}
