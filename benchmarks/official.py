"""The load of `load.py` as a program on the official SDK sends it: N clients of their own, each one call at a time.

    official.py < job.json > figures.json

The first call of each client, which asks for the era and the tools, is not counted. Every result is checked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from typing import Any

import uvloop
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from benchmarks.load import Wrong, figures_of
from benchmarks.processes import processor_seconds, tree

_PATIENCE_SECONDS = 30


async def main() -> None:
    job = json.load(sys.stdin)
    try:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(_client(job)) for _ in range(job["clients"])]
            figures = await _figures(job, clients)
            json.dump(figures, sys.stdout)
    except* (Wrong, OSError, TimeoutError) as errors:
        json.dump({"error": str(errors.exceptions[0])}, sys.stdout)
    sys.stdout.flush()
    os._exit(0)


@contextlib.asynccontextmanager
async def _client(job: dict[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {job['key']}"} if job["key"] else {}
    address = f"http://127.0.0.1:{job['port']}"
    if job.get("transport") == "sse":
        async with Client(sse_client(f"{address}/sse", headers=headers)) as client:
            await _call(client, job["tool"])
            yield client
        return
    url = f"{address}/mcp"
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        await _call(client, job["tool"])
        yield client


async def _call(client: Client, tool: str) -> None:
    answer = await client.call_tool(tool, {"a": 20, "b": 22})
    found = getattr(answer, "structured_content", None)
    if found is None or found["result"] != 42:
        raise Wrong(f"not 42: {answer!r}"[:500])


async def _figures(job: dict[str, Any], clients: list[Client]) -> dict[str, Any]:
    latencies: list[float] = []
    phase = {"counts": False, "runs": True}
    found = asyncio.Event()

    async def calls(client: Client) -> None:
        while phase["runs"]:
            began = time.perf_counter()
            await _call(client, job["tool"])
            if phase["counts"]:
                latencies.append(time.perf_counter() - began)
                found.set()

    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(calls(client))
        await asyncio.sleep(job["warm"])
        phase["counts"] = True
        pids = tree(job["pid"])
        server, own, start = processor_seconds(pids), time.process_time(), time.perf_counter()
        await asyncio.sleep(job["seconds"])
        await asyncio.wait_for(found.wait(), _PATIENCE_SECONDS)
        seconds = time.perf_counter() - start
        own, server = time.process_time() - own, processor_seconds(pids) - server
        phase["counts"] = phase["runs"] = False
    return figures_of(latencies, seconds, server, own)


if __name__ == "__main__":
    uvloop.run(main())
