"""Plain calls, and a registry object."""
import functools
from http.server import BaseHTTPRequestHandler, HTTPServer

from app import registry
from app.registry import register_tool


def cancel(number):
    return number


register_tool("cancel", "Cancel an order.", {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}, cancel)

NUMBER = {"type": "integer"}
for verb in ("pause", "resume"):
    registry.register_tool(name=verb + "_order", description=verb.title() + " an order.", parameters={"type": "object", "properties": {"number": NUMBER}}, func=functools.partial(cancel, 1))

HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler).serve_forever()
