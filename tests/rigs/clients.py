"""Clients of both eras that keep a journal of what they asked and what they were told."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass, field
from typing import Any

import httpx2

HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
_HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
_META = {
    "io.modelcontextprotocol/protocolVersion": STATELESS,
    "io.modelcontextprotocol/clientInfo": {"name": "rig", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Entry:
    """One call as its client knows it. `answers` holds (invocation id, is an error, text, was a repeat)."""

    name: str
    era: str
    attempts: int = 0
    answers: list[tuple[str, bool, str, bool]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)


class Client:
    """Calls `count` with a new name each time, as fast as it is answered, until told to stop."""

    def __init__(self, number: int, url: str, key: str, stopping: asyncio.Event) -> None:
        self.number = number
        self.url = f"{url}/mcp"
        self.journal: list[Entry] = []
        self._handshake = number % 2 == 0
        self._authorization = {**_HEADERS, "Authorization": f"Bearer {key}"}
        self._stopping = stopping
        self._ids = itertools.count(1)
        self._session = ""

    async def run(self) -> None:
        async with httpx2.AsyncClient(timeout=20) as http:
            for turn in itertools.count():
                if self._stopping.is_set():
                    return
                entry = Entry(f"c{self.number}-{turn}", HANDSHAKE if self._handshake else STATELESS)
                self.journal.append(entry)
                try:
                    await (self._in_session(http, entry) if self._handshake else self._alone(http, entry))
                except (httpx2.HTTPError, OSError):
                    await asyncio.sleep(0.2)

    async def _alone(self, http: httpx2.AsyncClient, entry: Entry) -> None:
        params = {"name": "count", "arguments": {"name": entry.name}, "_meta": _META}
        headers = {"MCP-Protocol-Version": STATELESS, "Mcp-Method": "tools/call", "Mcp-Name": "count"}
        await self._call(http, entry, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, headers)

    async def _in_session(self, http: httpx2.AsyncClient, entry: Entry) -> None:
        """Call, and where no answer comes ask again with the same id, as the protocol allows: it runs once."""
        if not self._session:
            await self._open(http)
        params = {"name": "count", "arguments": {"name": entry.name}}
        body = {"jsonrpc": "2.0", "id": next(self._ids), "method": "tools/call", "params": params}
        headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": self._session}
        while True:
            try:
                await self._call(http, entry, body, headers)
                return
            except (httpx2.HTTPError, OSError):
                if self._stopping.is_set():
                    raise
                await asyncio.sleep(0.1)

    async def _open(self, http: httpx2.AsyncClient) -> None:
        params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": {"name": "rig", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        answer = await http.post(self.url, json=body, headers=self._authorization)
        answer.raise_for_status()
        self._session = answer.headers["mcp-session-id"]
        headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": self._session}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await http.post(self.url, json=ready, headers={**self._authorization, **headers})

    async def _call(self, http: httpx2.AsyncClient, entry: Entry, body: Any, headers: dict[str, str]) -> None:
        entry.attempts += 1
        answer = await http.post(self.url, json=body, headers={**self._authorization, **headers})
        message = answer.json()
        if "result" not in message:
            entry.refusals.append(message["error"]["data"]["errorCode"])
            if answer.status_code == 404:
                self._session = ""
            return
        result = message["result"]
        meta = result["_meta"]
        text = result["content"][0]["text"] if result["content"] else ""
        entry.answers.append(
            (meta["mcphub/invocationId"], result.get("isError", False), text, "mcphub/duplicateOf" in meta)
        )
