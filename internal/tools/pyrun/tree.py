# Servers that are not started.

SERVERS = {
    "uvicorn.main": ["run"],
    "uvicorn": ["run"],
    "uvicorn.server": ["Server.run", "Server.serve"],
    "hypercorn.run": ["run"],
    "hypercorn.asyncio": ["serve"],
    "waitress": ["serve"],
    "werkzeug.serving": ["run_simple"],
    "flask.app": ["Flask.run"],
    "aiohttp.web": ["run_app"],
    "gunicorn.app.base": ["BaseApplication.run"],
    "tornado.ioloop": ["IOLoop.start"],
    "bottle": ["run"],
    "gradio.blocks": ["Blocks.launch"],
    "mcp.server.fastmcp.server": ["FastMCP.run"],
    "mcp.server.mcpserver.server": ["MCPServer.run"],
    "fastmcp.server.server": ["FastMCP.run"],
    "socketserver": ["BaseServer.serve_forever"],
}


def refuse(what):
    def refused(*args, **kwargs):
        where = CAPTURE.caller()
        CAPTURE.refused.setdefault(what + (" at " + where if where else ""), None)

    return refused


def later(refused):
    async def never(*args, **kwargs):
        return refused()

    return never


def guard(module):
    for path in SERVERS[module.__name__]:
        holder, parts = module, path.split(".")
        for part in parts[:-1]:
            holder = getattr(holder, part, None)
        served = getattr(holder, parts[-1], None)
        if served is None:
            continue
        instead = refuse(module.__name__ + "." + path)
        setattr(holder, parts[-1], later(instead) if inspect.iscoroutinefunction(served) else instead)


def guard_all():
    async def no_server(*args, **kwargs):
        refuse("an asyncio server")()
        return Stub("server")

    socket.socket.bind = refuse("socket.bind")
    socket.socket.listen = refuse("socket.listen")
    asyncio.base_events.BaseEventLoop.create_server = no_server
    asyncio.SelectorEventLoop.create_unix_server = no_server
    for name in list(SERVERS):
        if name in sys.modules:
            guard(sys.modules[name])


class Guarded:
    """A loader that takes the servers out of a module after it was loaded."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        self.loader.exec_module(module)
        guard(module)


# The tree's own modules.


class TreeFinder:
    """Finds modules before anything else: those of the tree get our loader, those that serve lose their servers."""

    def find_spec(self, name, path=None, target=None):
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or not spec.origin:
            return None
        if isinstance(spec.loader, importlib.machinery.SourceFileLoader) and CAPTURE.inside(spec.origin):
            spec.loader = Loader(spec.loader.name, spec.loader.path)
            return spec
        if name in SERVERS and spec.loader is not None:
            spec.loader = Guarded(spec.loader)
            return spec
        return None


class Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname):
        path = self.get_filename(fullname)
        CAPTURE.loaded.add(os.path.realpath(path))
        tree = ast.parse(self.get_data(path), filename=path)
        CAPTURE.fallbacks[path] = fallbacks(tree)
        tree = ast.fix_missing_locations(Rewriter(path).visit(tree))
        return compile(tree, path, "exec", dont_inherit=True)


def fallbacks(tree):
    """The lines on which an import may fail, because the code has another way then."""
    lines = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.With) and any("ImportError" in ast.dump(item.context_expr) for item in node.items):  # contextlib.suppress
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        if not isinstance(node, ast.Try):
            continue
        for handler in node.handlers:
            caught = {n.id if isinstance(n, ast.Name) else n.attr for n in ast.walk(handler.type) if isinstance(n, (ast.Name, ast.Attribute))} if handler.type else {"Exception"}
            if caught & {"ImportError", "ModuleNotFoundError", "Exception", "BaseException"}:
                for inner in node.body:
                    lines.update(range(inner.lineno, (inner.end_lineno or inner.lineno) + 1))
    return lines


class Rewriter(ast.NodeTransformer):
    """Puts the stand-in where the registration function is defined, imported, called or used as a decorator."""

    def __init__(self, path):
        self.path = path
        self.classes = [False]

    def matches(self, node):
        if isinstance(node, ast.Attribute) and node.attr == CAPTURE.name:
            base = node.value
            tail = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
            return not CAPTURE.receiver or CAPTURE.receiver == tail
        return isinstance(node, ast.Name) and node.id == CAPTURE.name and not CAPTURE.receiver

    def ask(self, method, node, *extra):
        own = ast.Attribute(value=ast.Name(id="__seatsmith__", ctx=ast.Load()), attr=method, ctx=ast.Load())
        return ast.copy_location(ast.Call(func=own, args=[node] + [ast.Constant(value=e) for e in extra], keywords=[]), node)

    def called(self, node):
        site = "%s:%d" % (CAPTURE.relative(self.path), node.lineno)
        CAPTURE.sites.setdefault(site, False)
        if isinstance(node, ast.Attribute):
            node.value = self.visit(node.value)
        return self.ask("wrap", node, site)

    def visit_Call(self, node):
        if not self.matches(node.func):
            return self.generic_visit(node)
        node.func = self.called(node.func)
        node.args = [self.visit(a) for a in node.args]
        node.keywords = [self.visit(k) for k in node.keywords]
        return node

    def visit_Name(self, node):
        return self.ask("loose", node) if isinstance(node.ctx, ast.Load) and self.matches(node) else node

    def visit_Attribute(self, node):
        node = self.generic_visit(node)
        return self.ask("loose", node) if isinstance(node.ctx, ast.Load) and self.matches(node) and not CAPTURE.receiver else node

    def definition(self, node):
        mine = node.name == CAPTURE.name and not CAPTURE.receiver and not isinstance(node, ast.ClassDef)
        node.decorator_list = [self.called(d) if self.matches(d) else self.visit(d) for d in node.decorator_list]
        method = self.classes[-1]
        self.classes.append(isinstance(node, ast.ClassDef))
        for field in ("args", "returns", "bases", "keywords", "body"):
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                setattr(node, field, self.visit(value))
            elif isinstance(value, list):
                out = []
                for item in value:
                    item = self.visit(item)
                    out.extend(item if isinstance(item, list) else [item])
                setattr(node, field, out)
        self.classes.pop()
        if mine:
            own = ast.Name(id="__seatsmith__", ctx=ast.Load())
            node.decorator_list.insert(0, ast.Attribute(value=own, attr="method" if method else "define", ctx=ast.Load()))
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = definition

    def visit_ImportFrom(self, node):
        out = [node]
        for alias in node.names:
            if alias.name == CAPTURE.name and not CAPTURE.receiver and node.module != "__future__":
                name = alias.asname or alias.name
                value = self.ask("define", ast.copy_location(ast.Name(id=name, ctx=ast.Load()), node))
                out.append(ast.copy_location(ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=value), node))
        return out
