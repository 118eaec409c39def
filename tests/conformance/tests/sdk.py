"""Drives the hub with the Python SDK: sdk.py http URL KEY MODE | sdk.py stdio PROGRAM KEY MODE.

Prints one line of JSON: what was negotiated, the tools, and what request_control and a tool without a grant answered.
"""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


async def drive(client):
    tools = await client.list_tools()
    heard = []

    async def progress(at, total, message):
        heard.append([at, total, message])

    asked = await client.call_tool(
        "request_control", {"purpose": "Be driven by the Python SDK."}, progress_callback=progress
    )
    without = await client.call_tool("list_tabs", {})
    return {
        "version": client.protocol_version,
        "server": client.server_info.name if client.server_info else None,
        "instructions": client.instructions,
        "tools": [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools.tools],
        "asked": asked.structured_content,
        "asked_is_error": bool(asked.is_error),
        "progress": heard,
        "without_grant": without.structured_content,
        "without_grant_is_error": bool(without.is_error),
    }


async def main():
    how, where, key, mode = sys.argv[1:]
    if how == "http":
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx2.AsyncClient(headers=headers, timeout=90) as http:
            async with Client(streamable_http_client(where, http_client=http), mode=mode) as client:
                return await drive(client)
    server = StdioServerParameters(
        command=where, args=["stdio", "browser"], env={**os.environ, "CONSENTRY_KEY": key}
    )
    async with Client(server, mode=mode) as client:
        return await drive(client)


print(json.dumps(asyncio.run(main())))
