"""A registration function of the usual kind."""
TOOLS = {}


def register_tool(name=None, description=None, parameters=None, func=None, timeout=30):
    def keep(f):
        TOOLS[name or f.__name__] = (f, description, parameters)
        return f

    return keep(func) if func is not None else keep
