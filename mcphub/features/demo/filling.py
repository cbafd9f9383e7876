"""The content of a demo: a company, thirty days of its calls, clients that make real calls now, and conversations with
recorded answers. The hub seals and shows all of it as ever.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx2

from mcphub.commands.stop import start_django
from mcphub.features.demo.serving import CONVERSATIONS, MARK, NAME

if TYPE_CHECKING:
    from mcphub.features.demo.history import DemoCaller

_SECONDS = 30.0
_REFUNDS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("Service desk assistant", {"order": "A-1041", "amount": 240.0}),
    ("Mia's Claude Desktop", {"order": "A-2207", "amount": 180.0}),
    ("Service desk assistant", {"order": "A-3310", "amount": 45.0}),
    ("Ben's Claude Code", {"order": "A-1187", "amount": 5200.0}),
)
"""Two wait for an approval, one is made, one is denied."""
_ROUNDS = {"Nightly report": 7, "Mia's Claude Desktop": 2, "Jon's VS Code": 3}
"""Rounds of real calls, by holder."""


class DemoFailed(Exception):
    """The demo was not filled; the message is the reason."""


def fill(url: str, server_url: str) -> list[str]:
    """Fill a hub that serves at `url` and has this process's settings; once only. Return the summary to print.

    `server_url` is that of a `DemoServer`.
    """
    start_django()
    from django.db import transaction
    from django.utils import timezone

    from mcphub.features.demo import company, history, recording
    from tools_catalog.models import McpToolset

    if McpToolset.objects.filter(slug=company.TOOLSET).exists():
        return ["The demo is as it was left. `mcphub demo --reset` makes it anew."]
    now = timezone.now()
    with transaction.atomic():
        made = company.found(server_url)
    past = recording.write(history.calls(now - timedelta(minutes=2)), made.keys, now)
    calls = 0
    lots = random.Random(7)  # noqa: S311 - the same demo each time
    with httpx2.Client(base_url=url, timeout=_SECONDS) as http:
        try:
            for caller in history.CALLERS:
                refunds = [arguments for holder, arguments in _REFUNDS if holder == caller.holder]
                path = f"/mcp/s/{company.TOOLSET}" if caller.holder == "Nightly report" else "/mcp"
                calls += _Session(http, caller, made.texts[caller.holder], path).play(lots, refunds)
        except httpx2.HTTPError as error:
            raise DemoFailed(f"the hub did not answer a client of the demo: {type(error).__name__}.") from error
        _converse(http, made.texts[company.ASKING], f"{server_url}/v1")
    return [
        f"The demo            {past} calls of {history.DAYS} days are invented, {calls} were made just now: see Calls",
        f"A toolset           {url}/mcp/s/{company.TOOLSET}",
        f"Conversations       {len(CONVERSATIONS)}, with recorded answers, of no model: see Conversations",
        "A tour              six stops, on the overview of the console",
    ]


def _converse(http: httpx2.Client, key: str, model_url: str) -> None:
    """Ask the questions of the conversations."""
    from mcphub.features.chat.models import ChatModel, ChatProvider

    provider = ChatProvider(slug="demo", base_url=model_url)
    provider.full_clean()
    provider.save()
    model = ChatModel(provider=provider, name=NAME, is_default=True)
    model.full_clean()
    model.save()
    headers = {"Authorization": f"Bearer {key}", "User-Agent": "box-office.py/1.4"}
    for turns in CONVERSATIONS:
        session = _answered(http, "/api/session", {"context": {"demo": MARK}}, headers)["id"]
        for turn in turns:
            asked = {"content": turn.question, "session_id": session, "tools": [turn.tool], "metadata": {"demo": MARK}}
            _answered(http, "/api/query", asked, headers)


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
    client: DemoCaller
    key: str
    path: str
    _id: str = ""
    _number: int = field(default=0)

    def play(self, lots: random.Random, refunds: list[dict[str, Any]]) -> int:
        """Open a session, list, call; return how many calls were made. A session at a toolset is closed again."""
        self._open()
        self._ask("tools/list", {})
        made = [call for _ in range(_ROUNDS.get(self.client.holder, 0)) for call in _round(lots)]
        if self.path != "/mcp":  # a toolset has but some of the tools
            made = [call for call in made if call[0] in ("add", "current_time")]
        made += [("billing.refund_order", arguments) for arguments in refunds]
        if "billing.list_orders" in self.client.tools and self.path == "/mcp":
            made.append(("billing.list_orders", {"customer": "2207"}))
        for name, arguments in made:
            self._ask("tools/call", {"name": name, "arguments": arguments})
        if self.path != "/mcp":
            self.http.delete(self.path, headers=self._headers())
        return len(made)

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
            self.path, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=self._headers()
        )

    def _ask(self, method: str, params: dict[str, Any]) -> httpx2.Response:
        self._number += 1
        body = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        return self.http.post(self.path, json=body, headers=self._headers())

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
