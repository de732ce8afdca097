package template

// requiredArg marks a parameter without a default.
type requiredArg struct{}

var required = requiredArg{}

// bind puts positional and named arguments in the order of a signature: pairs of a name and its default.
func bind(f string, args []value, named []keyword, signature ...any) ([]value, error) {
	n := len(signature) / 2
	if len(args) > n {
		return nil, typeError("%s() takes at most %d arguments (%d given)", f, n, len(args))
	}
	out := make([]value, n)
	for i := range n {
		out[i] = signature[2*i+1]
	}
	copy(out, args)
	for _, k := range named {
		i := 0
		for i < n && signature[2*i] != k.name {
			i++
		}
		if i == n {
			return nil, typeError("%s() got an unexpected keyword argument '%s'", f, k.name)
		}
		if i < len(args) {
			return nil, typeError("%s() got multiple values for argument '%s'", f, k.name)
		}
		out[i] = k.v
	}
	for i := range n {
		if out[i] == required {
			return nil, typeError("%s() missing a required argument: '%s'", f, signature[2*i])
		}
	}
	return out, nil
}

// intArg is an argument that must be an integer of reasonable size.
func intArg(v value) (int, error) {
	if u, ok := v.(*undefined); ok {
		return 0, u.err()
	}
	if !isInt(v) {
		return 0, typeError("'%s' object cannot be interpreted as an integer", typeName(v))
	}
	n := bigOf(v)
	if !n.IsInt64() || n.Int64() > 1<<31 || n.Int64() < -1<<31 {
		return 0, &Limit{What: "an integer argument is too large"}
	}
	return int(n.Int64()), nil
}

// textArg is an argument that must be a str.
func textArg(v value) (string, error) {
	if u, ok := v.(*undefined); ok {
		return "", typeError("must be str, not %s", typeName(u))
	}
	s, ok := asText(v)
	if !ok {
		return "", typeError("must be str, not %s", typeName(v))
	}
	return s, nil
}
