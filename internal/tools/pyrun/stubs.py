"""Runs a source tree and captures what it registers; seatsmith passes this text to the tree's own interpreter.

The settings come as JSON in sys.argv[2], the answer goes as JSON to file descriptor 3; standard output and error belong to the tree.
It needs nothing but the standard library of Python 3.8, writes no file, and calls no registration function: a stand-in takes
the calls. Modules of the tree are rewritten while they are loaded, so that every call of the function, under whatever name, by
whatever receiver, meets the stand-in.
"""
import abc
import ast
import asyncio
import builtins
import enum
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import math
import os
import re
import socket
import sys
import traceback
import types
import typing

OWN = "<seatsmith capture>"
MARK = "<stub of "  # how a stub prints, so that a text made of one is known
SKIP = {"site-packages", "dist-packages", "node_modules", "__pycache__", "venv", "env"}


class Problem(Exception):
    """A registration whose schema is not known, or an entry that cannot be followed."""


# Stand-ins for what is missing.


class StubMeta(abc.ABCMeta):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(cls.__dict__.get("_stub_path", cls.__name__) + "." + name)


class StubBase(metaclass=StubMeta):
    """What a class inherits from when its base is missing."""

    def __init__(self, *args, **kwargs):
        pass

    def __init_subclass__(cls, **kwargs):
        pass

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub(type(self).__name__ + "." + name)


class Stub:
    """Anything that a missing module would have had: it can be called, entered, awaited, inherited from and indexed."""

    def __init__(self, path):
        self.__dict__["_path"] = path

    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        if name == CAPTURE.name and not CAPTURE.receiver:
            return StandIn(None)
        return Stub(self._path + "." + name)

    def __setattr__(self, name, value):
        self.__dict__[name] = value

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Stub):
            return args[0]  # a decorator leaves what it decorates
        return Stub(self._path + "()")

    def __mro_entries__(self, bases):
        first = next(b for b in bases if isinstance(b, Stub))
        return (StubBase,) if first is self else ()

    def __repr__(self):
        return MARK + self._path + ">"

    def __iter__(self):
        return iter(())

    def __await__(self):
        return iter(())

    async def __aenter__(self):
        return self

    async def __aexit__(self, *args):
        return None

    def __aiter__(self):
        return self

    async def __anext__(self):
        raise StopAsyncIteration

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return None

    def __len__(self):
        return 0

    def __bool__(self):
        return True

    def _no(self, *args):
        return False

    __contains__ = __lt__ = __le__ = __gt__ = __ge__ = _no

    __instancecheck__ = __subclasscheck__ = _no

    def _same(self, *args):
        return Stub(self._path)

    __getitem__ = __or__ = __ror__ = __and__ = __add__ = __radd__ = __sub__ = __mul__ = __truediv__ = __rtruediv__ = __mod__ = _same


class StubModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return getattr(Stub(self.__name__), name)


class StubFinder:
    """Answers last, for modules that nothing else found, when a module of the tree asks for them without a fallback."""

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if name != top:
            if not isinstance(sys.modules.get(name.rpartition(".")[0]), StubModule):
                return None
        elif not CAPTURE.stubs or not CAPTURE.wanted(top):
            return None
        CAPTURE.stubbed.setdefault(top, None)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StubModule(spec.name)

    def exec_module(self, module):
        pass
