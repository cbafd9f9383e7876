"""The content of a demo: keys, a toolset, clients that make real calls, good and bad, and a conversation with
recorded answers (`demo_model`). The hub records all of it as ever.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2

from mcphub.commands.stop import start_django
from mcphub.features.demo.model import CONVERSATION, MARK, NAME

_REVISION = "2025-06-18"
_SECONDS = 30.0
_TOOLSET = "everyday"
_IN_TOOLSET = ("add", "current_time")
_ASKING = "Box office, chat"


class DemoFailed(Exception):
    """The demo was not filled; the message is the reason."""


@dataclass(frozen=True, slots=True)
class _Client:
    """One program with a key of its own, and how many rounds of calls it makes."""

    holder: str
    program: str
    version: str
    rounds: int
    path: str = "/mcp"
    revision: str = _REVISION


_CLIENTS = (
    _Client("Mia's Claude Desktop", "claude-ai", "0.14.2", 4),
    _Client("Jon's VS Code", "Visual Studio Code", "1.106.1", 5, revision="2025-11-25"),
    _Client("Reading group, Cursor", "cursor-vscode", "1.0.0", 3, path=f"/mcp/s/{_TOOLSET}"),
    _Client("Nightly report", "report.py", "3.2", 6, revision="2025-03-26"),
)


def fill(url: str, model_url: str) -> list[str]:
    """Fill a hub that serves at `url` and has this process's settings; once only. Return the summary to print.

    At `model_url` recorded answers are served, for as long as this takes.
    """
    start_django()
    from tools_catalog.models import McpToolset

    if McpToolset.objects.filter(slug=_TOOLSET).exists():
        return ["The demo is as it was left."]
    keys = _rows()
    calls = 0
    lots = random.Random(7)  # noqa: S311 - the same demo each time
    with httpx2.Client(base_url=url, timeout=_SECONDS) as http:
        for client in _CLIENTS:
            try:
                calls += _Session(http, client, keys[client.holder]).play(lots)
            except httpx2.HTTPError as error:
                raise DemoFailed(f"the hub did not answer a client of the demo: {type(error).__name__}.") from error
        _converse(http, keys[_ASKING], model_url)
    return [
        f"The demo            {len(_CLIENTS)} clients have made {calls} calls, good and bad: see Invocations",
        f"A toolset           {url}/mcp/s/{_TOOLSET}",
        f"A conversation      {len(CONVERSATION)} questions with recorded answers, of no model: see Conversations",
    ]


def _rows() -> dict[str, str]:
    """Make the keys and the toolset; give the keys by holder."""
    from django.db import transaction

    from sessions_app.models import ApiKey
    from tools_catalog.models import McpToolDefinition, McpToolset

    with transaction.atomic():
        scopes = ["tools:list", "tools:call"]
        keys = {client.holder: ApiKey.issue(client.holder, scopes=scopes)[1] for client in _CLIENTS}
        keys[_ASKING] = ApiKey.issue(_ASKING, scopes=[*scopes, "chat"])[1]
        toolset = McpToolset(
            slug=_TOOLSET, title="Everyday tools", description="Sums and the time: what a meeting needs."
        )
        toolset.full_clean()
        toolset.save()
        toolset.tools.set(McpToolDefinition.objects.filter(name__in=_IN_TOOLSET))
    return keys


def _converse(http: httpx2.Client, key: str, model_url: str) -> None:
    """Ask the questions of the conversation. Afterwards nothing answers at `model_url`, so the provider is off."""
    from mcphub.features.chat.models import ChatModel, ChatProvider

    provider = ChatProvider(slug="demo", base_url=model_url)
    provider.full_clean()
    provider.save()
    model = ChatModel(provider=provider, name=NAME, is_default=True)
    model.full_clean()
    model.save()
    headers = {"Authorization": f"Bearer {key}", "User-Agent": "box-office.py/1.4"}
    session = _answered(http, "/api/session", {"context": {"demo": MARK}}, headers)["id"]
    for turn in CONVERSATION:
        asked = {"content": turn.question, "session_id": session, "tools": [turn.tool], "metadata": {"demo": MARK}}
        _answered(http, "/api/query", asked, headers)
    provider.enabled = False
    provider.save()


def _answered(http: httpx2.Client, path: str, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any]:
    """Post, again until the hub knows the key and the model, which are new."""
    until = time.monotonic() + _SECONDS
    while True:
        try:
            answer = http.post(path, json=body, headers=headers)
        except httpx2.HTTPError as error:
            raise DemoFailed(f"the hub did not answer a question of the demo: {type(error).__name__}.") from error
        if answer.is_success:
            said: dict[str, Any] = answer.json()
            return said
        if time.monotonic() > until:
            raise DemoFailed(f"the hub refuses a question of the demo: {answer.text[:300]}")
        time.sleep(0.1)


@dataclass(slots=True)
class _Session:
    http: httpx2.Client
    client: _Client
    key: str
    _id: str = ""
    _number: int = field(default=0)

    def play(self, lots: random.Random) -> int:
        """Open a session, list, call; give how many calls were made. Every second client closes its session."""
        self._open()
        self._ask("tools/list", {})
        calls = [call for _ in range(self.client.rounds) for call in _round(lots)]
        if self.client.path != "/mcp":  # a toolset has but some of the tools
            calls = [call for call in calls if call[0] in _IN_TOOLSET]
        for name, arguments in calls:
            self._ask("tools/call", {"name": name, "arguments": arguments})
        if self.client.rounds % 2:
            self.http.delete(self.client.path, headers=self._headers())
        return len(calls)

    def _open(self) -> None:
        """Initialize, repeatedly until the hub has the new key and address."""
        until = time.monotonic() + _SECONDS
        about = {"name": self.client.program, "version": self.client.version}
        params = {"protocolVersion": self.client.revision, "capabilities": {}, "clientInfo": about}
        answer = self._ask("initialize", params)
        while answer.status_code != 200:
            if time.monotonic() > until:
                raise DemoFailed(f"the hub refuses a client of the demo with status {answer.status_code}.")
            time.sleep(0.1)
            answer = self._ask("initialize", params)
        self._id = answer.headers.get("mcp-session-id", "")
        self.http.post(
            self.client.path, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=self._headers()
        )

    def _ask(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        return self.http.post(self.client.path, json=body, headers=self._headers())

    def _headers(self) -> dict[str, str]:
        headers = {
            "Authorization": f"Bearer {self.key}",
            "Accept": "application/json, text/event-stream",
            "User-Agent": f"{self.client.program}/{self.client.version}",
        }
        return (
            {**headers, "Mcp-Session-Id": self._id, "MCP-Protocol-Version": self.client.revision}
            if self._id
            else headers
        )


def _round(lots: random.Random) -> Iterator[tuple[str, dict[str, Any]]]:
    """Some calls that work, and now and then one that does not."""
    yield "add", {"a": lots.randint(10, 900), "b": lots.randint(10, 900)}
    yield "echo", {"text": lots.choice(["Minutes of Monday's meeting", "Invoice 4711 is paid", "Guten Morgen", "完了"])}
    yield "current_time", {"timezone": lots.choice(["Europe/Berlin", "Asia/Tokyo", "UTC"])}
    yield "add", {"a": lots.random() * 100, "b": 0.5}
    fault = lots.randrange(4)
    if fault == 0:
        yield "add", {"a": "nineteen", "b": 23}
    elif fault == 1:
        yield "send_invoice", {"number": 4711}
    elif fault == 2:
        yield "fetch_url", {"url": "http://169.254.169.254/latest/meta-data"}
    else:
        yield "current_time", {"timezone": "Europe/Atlantis"}
