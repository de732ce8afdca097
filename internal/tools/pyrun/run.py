# One run.


class Capture:
    def __init__(self, settings):
        self.root = os.path.realpath(settings["root"])
        self.receiver, _, self.name = settings["register"].rpartition(".")
        self.receiver = self.receiver.rpartition(".")[2]
        self.schema_arg = settings["schema_arg"]
        self.stubs = settings["stubs"]
        self.extra = [os.path.realpath(os.path.join(self.root, p)) for p in settings["paths"]]
        self.stubbed, self.refused, self.sites, self.fallbacks = {}, {}, {}, {}
        self.loaded, self.registrations, self.names = set(), [], None

    # what the rewritten code calls

    def wrap(self, value, site):
        self.sites[site] = True
        if isinstance(value, StandIn):
            return value
        return StandIn(None if isinstance(value, Stub) else value) if callable(value) else value

    def loose(self, value):
        if isinstance(value, StandIn) or getattr(value, "__name__", None) != self.name or not callable(value) or isinstance(value, type):
            return value
        return StandIn(value)

    def define(self, value):
        return value if isinstance(value, StandIn) or not callable(getattr(value, "__func__", value)) else StandIn(value)

    def method(self, value):
        return value if isinstance(value, StandIn) else StandIn(value, method=True)

    # where things are

    def inside(self, path):
        if path.startswith("<"):
            return False
        path = os.path.realpath(path)
        if not any(path.startswith(base + os.sep) for base in [self.root] + self.extra):
            return False
        prefix = os.path.realpath(sys.prefix)
        if prefix.startswith(self.root + os.sep) and path.startswith(prefix + os.sep):
            return False
        return not SKIP & set(path[len(self.root):].split(os.sep))

    def relative(self, path):
        return os.path.relpath(os.path.realpath(path), self.root)

    def caller(self):
        """The place in the tree that is running: file:line, or ""."""
        frame = sys._getframe(1)
        while frame is not None:
            path = frame.f_code.co_filename
            if self.inside(path):
                return "%s:%d" % (self.relative(path), frame.f_lineno)
            frame = frame.f_back
        return ""

    def wanted(self, top):
        """Whether a missing module is to be stood in for: asked for by the tree itself, where failing is no way out, and not
        a part of the tree that is only not on the path."""
        frame = sys._getframe(2)
        while frame is not None:
            path = frame.f_code.co_filename
            if frame.f_code.co_name == "find_spec" and frame.f_globals.get("__name__") == "importlib.util":
                return False  # the tree only asks whether it is there
            if path != OWN and not of_import(path):
                break
            frame = frame.f_back
        if frame is None or not self.inside(frame.f_code.co_filename):
            return False
        if frame.f_lineno in self.fallbacks.get(frame.f_code.co_filename, ()):
            return False
        return top not in self.own_names()

    def files(self):
        count = 0
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(f for f in folders if f not in SKIP and not f.startswith(".") and not os.path.exists(os.path.join(folder, f, "pyvenv.cfg")))
            for f in sorted(files):
                count += 1
                if count > 50000:
                    return
                if f.endswith(".py"):
                    yield os.path.join(folder, f)

    def own_names(self):
        if self.names is None:
            self.names = set()
            for path in self.files():  # what could be at the top if its folder were on the path
                folder, base = os.path.split(path)
                if base == "__init__.py":
                    folder, base = os.path.split(folder)
                if not os.path.exists(os.path.join(folder, "__init__.py")):
                    self.names.add(base[:-3] if base.endswith(".py") else base)
        return self.names

    def unreached(self):
        """Places that would register and did not run, and files that mention the function and were not loaded."""
        out = ["%s was not reached" % site for site, ran in self.sites.items() if not ran]
        word = re.compile(rb"\b" + re.escape(self.name.encode()) + rb"\s*\(|@[\w.]*\b" + re.escape(self.name.encode()) + rb"\b")
        for path in self.files():
            base = os.path.basename(path)
            if os.path.realpath(path) in self.loaded or base.startswith("test_") or base == "conftest.py" or os.sep + "tests" + os.sep in path:
                continue
            try:
                with open(path, "rb") as f:
                    if word.search(f.read(1 << 20)):
                        out.append("%s was not imported" % self.relative(path))
            except OSError as e:
                out.append("%s could not be read: %s" % (self.relative(path), e.strerror))
        return out

    # the run itself

    def start(self):
        climbed, prefix = self.root, ""
        while os.path.exists(os.path.join(climbed, "__init__.py")):
            prefix = os.path.basename(climbed) + "." + prefix
            climbed = os.path.dirname(climbed)
        self.package = prefix
        sys.path[:] = self.extra + [self.root] + ([climbed] if prefix else []) + [p for p in sys.path if p]
        sys.meta_path.insert(0, TreeFinder())
        sys.meta_path.append(StubFinder())
        builtins.__seatsmith__ = self
        guard_all()

    def module_name(self, entry):
        if not entry.endswith(".py") and os.sep not in entry:
            return entry
        path = os.path.realpath(os.path.join(self.root, entry))
        if not os.path.exists(path):
            raise Problem("there is no %s in the tree" % entry)
        base = max((b for b in [self.root] + self.extra if path.startswith(b + os.sep)), key=len, default=None)
        if base is None:
            raise Problem("%s is not inside the tree" % entry)
        name = os.path.relpath(path, base)
        name = name[:-3] if name.endswith(".py") else name
        name = name.replace(os.sep, ".")
        name = name[: -len(".__init__")] if name.endswith(".__init__") else name
        if base == self.root and self.package:
            return self.package.rstrip(".") if name == "__init__" else self.package + name
        return name

    def enter(self, entry):
        """Imports MODULE, FILE or MODULE:NAME, and gives the value of NAME."""
        entry, _, attribute = entry.partition(":")
        value = importlib.import_module(self.module_name(entry))
        for part in attribute.split(".") if attribute else ():
            if not hasattr(value, part):
                raise Problem("%s has no %s" % (entry, attribute))
            value = getattr(value, part)
        return value if attribute else None

    def call(self, value, entry):
        if not callable(value):
            raise Problem("%s is a %s and cannot be called" % (entry, type(value).__name__))
        args = []
        try:
            for p in inspect.signature(value).parameters.values():
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                    args.append(Stub(p.name))
        except ValueError:
            pass  # a builtin tells nothing of its parameters
        value = value(*args)
        return asyncio.run(waiting(value)) if inspect.isawaitable(value) else value

    def tools(self):
        out, problems, seen = [], [], set()
        for r in self.registrations:
            try:
                tool, derived = r.tool()
                key = (r.where, json.dumps(tool))
                if key in seen:
                    continue  # one file under two module names
                seen.add(key)
                out.append({"definition": tool, "derived": derived, "where": r.where})
            except Problem as e:
                name = r.roles.get("name") or getattr(r.function, "__name__", None)
                problems.append({"subject": "%s%s" % (r.where, " (%.80s)" % name if isinstance(name, str) else ""), "message": str(e)})
        return out, problems


def of_import(path):
    return path.startswith("<frozen importlib") or os.path.dirname(path) == os.path.dirname(importlib.__file__)


async def waiting(value):
    return await value


def explain(e):
    lines = []
    t = traceback.TracebackException(type(e), e, e.__traceback__)
    one = t
    while one is not None:
        if hasattr(one, "stack"):
            kept = [f for f in one.stack if f.filename != OWN and not of_import(f.filename)]
            one.stack = traceback.StackSummary.from_list(kept)
        one = one.__cause__ or one.__context__
    for part in t.format():
        lines.extend(part.rstrip("\n").split("\n"))
    return "\n".join(lines[-15:])


def main():
    out = os.fdopen(3, "w", encoding="ascii")
    os.set_inheritable(3, False)
    settings, own = json.loads(sys.argv[2]), os.getpid()
    del sys.argv[1:]
    global CAPTURE
    CAPTURE = Capture(settings)
    if settings["limit"] > 0:
        faulthandler.dump_traceback_later(settings["limit"], repeat=True, file=2)  # seen only when it has no end
    answer, at = {"python": "%d.%d.%d" % sys.version_info[:3]}, ""
    try:
        CAPTURE.start()
        for at in settings["imports"]:
            value = CAPTURE.enter(at)
            if ":" in at:
                CAPTURE.call(value, at)
        if settings["source"]:
            at = settings["source"]
            value = CAPTURE.enter(at)
            if callable(value) and not isinstance(value, Stub):
                value = CAPTURE.call(value, at)
            answer["document"] = plain(value, at)
        else:
            answer["tools"], answer["problems"] = CAPTURE.tools()
            answer["unreached"] = CAPTURE.unreached()
            answer["sites"] = len(CAPTURE.sites)
    except Problem as e:
        answer["error"] = {"at": at, "message": str(e)}
    except BaseException as e:  # SystemExit and KeyboardInterrupt of the tree as well
        answer["error"] = {"at": at, "message": "%s: %s" % (type(e).__name__, e), "traceback": explain(e)}
    faulthandler.cancel_dump_traceback_later()
    answer["stubbed"], answer["refused"] = sorted(CAPTURE.stubbed), list(CAPTURE.refused)
    if os.getpid() == own:  # not a fork that the tree made
        out.write(json.dumps(answer) + "\n")
        out.flush()
    os._exit(0)  # threads that the tree left behind are not waited for


main()
