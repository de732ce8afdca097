# Values as JSON.


def plain(value, path, depth=0):
    """A value as JSON has it, keys in their order; what JSON has not is a Problem that names its place."""
    if depth > 150:
        raise Problem("%.80s… is nested deeper than 150" % path)
    if isinstance(value, Stub) or isinstance(value, str) and MARK in value:
        raise Problem("%s comes from a missing module: %s" % (path, value))
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            raise Problem("%s holds half of a surrogate pair" % path) from None
        return str(value)
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        raise Problem("%s is %r, which JSON does not have" % (path, value))
    if isinstance(value, (list, tuple)):
        return [plain(v, "%s/%d" % (path, i), depth + 1) for i, v in enumerate(value)]
    if isinstance(value, (dict, types.MappingProxyType)):
        out = {}
        for k, v in value.items():
            if not isinstance(k, str) or isinstance(k, enum.Enum):
                raise Problem("%s has the key %.60r, which is not a string" % (path, k))
            out[plain(k, path)] = plain(v, "%s/%s" % (path, k), depth + 1)
        return out
    raise Problem("%s is a %s, which JSON does not have" % (path, type(value).__name__))


# Schemas of signatures, where they are certain.

SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}


def derive(function):
    try:
        signature = inspect.signature(function)
        hints = typing.get_type_hints(getattr(function, "func", function), **({"include_extras": True} if sys.version_info >= (3, 9) else {}))
    except (TypeError, ValueError, NameError, AttributeError) as e:
        raise Problem("its signature cannot be read: %s: %s" % (type(e).__name__, e)) from None
    _, said = docstring(getattr(function, "func", function))
    properties, required = {}, []
    for i, p in enumerate(signature.parameters.values()):
        if i == 0 and p.name in ("self", "cls") and p.name not in hints:
            continue
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise Problem("the parameter %s takes any number of arguments" % p)
        if p.name not in hints:
            raise Problem("the parameter %s has no annotation" % p.name)
        schema = of_type(hints[p.name], p.name, optional=p.default is None)
        if p.name in said and "description" not in schema:
            schema["description"] = said[p.name]
        properties[p.name] = schema
        if p.default is p.empty:
            required.append(p.name)
    out = {"type": "object", "properties": properties}
    if required:
        out["required"] = required
    return out


def of_type(t, where, optional=False):
    origin, args = typing.get_origin(t), typing.get_args(t)
    if t in SIMPLE if isinstance(t, type) else False:
        return {"type": SIMPLE[t]}
    if isinstance(t, type) and issubclass(t, enum.Enum) and len(t):
        return values([m.value for m in t], where)
    if sys.version_info >= (3, 9) and origin is typing.Annotated:
        words = [a for a in args[1:] if isinstance(a, str)]
        if len(words) != len(args) - 1 or len(words) != 1:
            raise Problem("what annotates the parameter %s besides its type is not known here" % where)
        return dict(of_type(args[0], where, optional), description=words[0])
    if origin is typing.Literal:
        return values(list(args), where)
    if t is list or origin is list:
        return dict({"type": "array"}, **({"items": of_type(args[0], where)} if args and not isinstance(args[0], typing.TypeVar) else {}))
    if t is dict or origin is dict:
        if args and not isinstance(args[0], typing.TypeVar):
            if args[0] is not str:
                raise Problem("the parameter %s is a dict whose keys are not strings" % where)
            if args[1] is not typing.Any:
                return {"type": "object", "additionalProperties": of_type(args[1], where)}
        return {"type": "object"}
    if origin is typing.Union or getattr(types, "UnionType", None) is not None and origin is types.UnionType:
        rest = [a for a in args if a is not type(None)]
        if len(rest) == 1 and len(args) == 2 and optional:
            return of_type(rest[0], where)
        raise Problem("the parameter %s takes one of several types: %s" % (where, t))
    raise Problem("the parameter %s is a %s" % (where, t if isinstance(t, Stub) else getattr(t, "__name__", t)))


def values(list_, where):
    kinds = {type(v) for v in list_}
    if len(kinds) != 1 or kinds.pop() not in SIMPLE:
        raise Problem("the values of the parameter %s are not of one simple type" % where)
    return {"type": SIMPLE[type(list_[0])], "enum": list_}


SECTION = re.compile(r"^(Args|Arguments|Parameters|Params|Returns?|Raises|Yields|Examples?|Notes?):?\s*$|^:\w+")


def docstring(function):
    """The text before the first section, and what Google's and Sphinx's styles say of parameters."""
    lines = (inspect.getdoc(function) or "").split("\n")
    end = next((i for i, line in enumerate(lines) if SECTION.match(line)), len(lines))
    said, inside, current, indent = {}, False, None, None
    for line in lines[end:]:
        sphinx = re.match(r"^:param\s+(?:[^:]*\s)?(\w+):\s*(.*)$", line)
        if sphinx:
            said[sphinx.group(1)], current, inside = sphinx.group(2).strip(), None, False
        elif SECTION.match(line):
            inside, current, indent = re.match(r"^(Args|Arguments|Parameters|Params):", line) is not None, None, None
        elif inside and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = depth if indent is None else indent
            item = re.match(r"^\s+(\w+)\s*(?:\([^)]*\))?:\s*(.*)$", line)
            if item and depth == indent:
                current = item.group(1)
                said[current] = item.group(2).strip()
            elif current:
                said[current] = (said[current] + " " + line.strip()).strip()
    return "\n".join(lines[:end]).strip(), {k: v for k, v in said.items() if v}
