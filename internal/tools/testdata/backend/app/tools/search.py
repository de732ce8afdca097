"""Decorators, with a dependency that is not installed and a server that is started at import."""
import asyncio

import seatsmith_missing_http
from seatsmith_missing_models.sql import Session

from ..registry import register_tool as tool
from .. import registry

try:
    import seatsmith_missing_json as json
except ImportError:
    import json


@tool(
    name="search",
    description="Search the menu.",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string", "description": "What to look for"}, "limit": {"type": "integer", "default": 10}},
        "required": ["query"],
        "additionalProperties": False,
    },
)
async def search(query, limit=10):
    return await seatsmith_missing_http.get(query)


@registry.register_tool("open_at", "Say whether the tavern is open.", {"type": "object", "properties": {"hour": {"type": "integer", "minimum": 0, "maximum": 23}}})
@seatsmith_missing_http.cached(60)
def open_at(hour: int):
    return json.dumps({"open": 10 <= hour})


async def handle(reader, writer):
    writer.close()


async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        await server.serve_forever()


asyncio.run(main())
