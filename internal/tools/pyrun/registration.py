# The stand-in, and what its calls say.


class StandIn:
    """Stands in for the registration function. Not a function itself, so that a class does not bind it."""

    def __init__(self, original, method=False):
        self.original = getattr(original, "__func__", original) if isinstance(original, (staticmethod, classmethod)) else original
        self.method = method and not isinstance(original, staticmethod)

    def __call__(self, *args, **kwargs):
        r = Registration(self, args, kwargs, CAPTURE.caller())
        CAPTURE.registrations.append(r)
        return r.function if r.function is not None else Pending(r)

    def bind(self, args, kwargs):
        """The arguments under the names of the original's parameters, or None when they are not known."""
        if self.original is None or isinstance(self.original, Stub):
            return None
        try:
            signature = inspect.signature(self.original)
            parameters = list(signature.parameters.values())
            bound = signature.replace(parameters=parameters[1:] if self.method else parameters).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return None
        named, rest = {}, []
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif kind is inspect.Parameter.VAR_POSITIONAL:
                rest.extend(value)
            else:
                named[name] = value
        return named, rest


class Pending(Stub):
    """What a registration without a function returns: the decorator that brings the function, or nothing of interest."""

    def __init__(self, registration):
        super().__init__(CAPTURE.name + "()")
        self.__dict__["_registration"] = registration

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and callable(args[0]) and self._registration.function is None:
            self._registration.function = args[0]
            return args[0]
        return super().__call__(*args, **kwargs)


ROLES = {
    "name": ("name", "tool_name"),
    "description": ("description", "desc"),
    "schema": ("parameters", "params", "schema", "input_schema", "inputSchema", "parameters_schema", "json_schema", "args_schema"),
    "function": ("func", "fn", "function", "handler", "callback", "callable", "f", "tool", "impl", "implementation", "coroutine"),
}


class Registration:
    def __init__(self, standin, args, kwargs, where):
        self.where = where
        self.roles, self.unclear = {}, []
        bound = standin.bind(args, kwargs)
        named, rest = bound if bound is not None else (dict(kwargs), list(args))
        for role, names in ROLES.items():
            if role == "schema" and CAPTURE.schema_arg:
                names = (CAPTURE.schema_arg,)
            for name in names:
                if role == "name" and runnable(named.get(name)):
                    rest.append(named.pop(name))  # a bare decorator: the function is the first argument, whatever its name
                if named.get(name) is not None:
                    self.roles.setdefault(role, named[name])
        if isinstance(self.roles.get("function"), dict):  # {"type": "function", "function": {…}} passed as keywords
            rest.append(self.roles.pop("function"))
        known = {n for names in ROLES.values() for n in names}
        rest.extend(v for n, v in named.items() if n not in known and (isinstance(v, dict) and (definition(v) or described(v)) or bound is not None and runnable(v)))
        for value in rest:
            self.positional(value)
        self.function = self.roles.get("function")
        if self.function is not None and not callable(self.function):
            self.function = None

    def positional(self, value):
        if runnable(value):
            self.roles.setdefault("function", value)
        elif isinstance(value, str):
            role = "name" if "name" not in self.roles else "description"
            if role == "name" and not re.match(r"^[\w.:/-]+$", value):
                self.unclear.append(value)
            else:
                self.roles.setdefault(role, value)
        elif isinstance(value, dict) and definition(value):
            self.whole(value.get("function") if isinstance(value.get("function"), dict) else value)
        elif isinstance(value, dict):
            self.roles.setdefault("schema", value)
        elif not isinstance(value, Stub) and isinstance(getattr(value, "name", None), str):
            self.whole(attributes(value))

    def whole(self, given):
        for role, names in ROLES.items():
            for name in names:
                if name in given:
                    self.roles.setdefault(role, given[name])

    def tool(self):
        """The definition, and what of it was derived."""
        roles, f, derived = self.roles, self.function, []
        if self.unclear and "name" not in roles and f is None:
            raise Problem("it cannot be told what %.60r stands for: pass it by name" % self.unclear[0])
        if isinstance(f, type):
            self.whole(attributes(f))
        name = roles.get("name") or getattr(f, "__name__", None)
        if not isinstance(name, str):
            raise Problem("it has no name that is a string%s" % (": " + repr(name) if name is not None else ""))
        out = {"name": plain(name, "name")}
        target = getattr(f, "func", f)  # functools.partial
        text = roles.get("description")
        if text is None and callable(target) and not isinstance(f, type) and inspect.getdoc(target):
            text, _ = docstring(target)
            derived.append("description")
        if text is not None:
            out["description"] = plain(text, "description")
        value = roles.get("schema")
        if value is None and isinstance(f, type):
            raise Problem("the class %s has no attribute that is its schema (%s)" % (f.__name__, ", ".join(ROLES["schema"])))
        if value is None:
            if f is None:
                raise Problem("it was registered without a schema and without a function")
            value = derive(f)
            derived.append("parameters")
        elif isinstance(value, type) or hasattr(value, "model_json_schema"):
            value = of_class(value)
        if not isinstance(value, dict) and not isinstance(value, Stub) and not isinstance(value, (list, bool, int, float)):
            raise Problem("its schema is a %s, not a dict" % type(value).__name__)
        out["parameters"] = plain(value, "parameters")
        return out, derived


def definition(value):
    return isinstance(value.get("function"), dict) or isinstance(value.get("name"), str) and any(k in value for k in ROLES["schema"] + ("description",))


def described(value):
    return value.get("type") == "object" or isinstance(value.get("properties"), dict)


def runnable(value):
    return callable(value) and not isinstance(value, (Stub, StandIn)) and own(value, "model_json_schema") is None


def own(value, name):
    """An attribute that is really there, or None: what comes of a missing base class has every attribute."""
    found = getattr(value, name, None)
    return None if isinstance(found, Stub) else found


def attributes(value):
    return {n: own(value, n) for names in ROLES.values() for n in names if own(value, n) is not None}


def of_class(cls):
    for method in ("model_json_schema", "schema"):  # pydantic 2 and 1
        made = getattr(cls, method, None)
        if callable(made):
            return made()
    raise Problem("its schema is the class %s, which makes no JSON Schema (model_json_schema)" % getattr(cls, "__name__", cls))
