"""The hub's upstream side as the client that the official suite tests: `upstream.py URL`, started by the suite.

It connects as the hub does, leaves out what the hub would refuse, and asks for all that is offered: with the
arguments that the suite names, or else with some that fit. Questions are answered as by who takes every default.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import django

from sessions_app.protocol import errors
from sessions_app.protocol.envelope import LOG_LEVELS
from tools_catalog.call.context import CallInfo, NoClientInput, ToolContextParts
from tools_catalog.call.input_requests import InputRequest
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.link import Approval, ConnectionEnvironment, Offer
from tools_catalog.upstream.listing import PROMPT, RESOURCE, TOOL, Listed, Offers
from tools_catalog.upstream.pool import Pool
from tools_catalog.upstream.spec import ConnectionSpec

TRUSTED = Approval("", "", trusts=True)
_VALUES = {"string": "test", "integer": 1, "number": 1.5, "boolean": True, "array": [], "object": {}}


class TwentySeconds:
    def remaining_seconds(self) -> float:
        return 20.0


class Person(NoClientInput):
    """The input of a call whose client can be asked everything."""

    def can_ask(self, question: InputRequest) -> bool:
        return True

    async def ask(self, questions: Mapping[str, InputRequest]) -> dict[str, Any]:
        return {key: _answer(question) for key, question in questions.items()}


def _answer(question: Any) -> dict[str, Any]:
    if question.method == "roots/list":
        return {"roots": [{"uri": "file:///work"}]}
    if question.method == "sampling/createMessage":
        return {"role": "assistant", "model": "m", "content": {"type": "text", "text": "thought"}}
    properties = question.given.get("requestedSchema", {}).get("properties", {})
    given = {name: schema.get("default", _VALUES.get(schema.get("type"), "")) for name, schema in properties.items()}
    return {"action": "accept", "content": given}


def requests(offers: Offers, asked: Any) -> list[tuple[str, dict[str, Any], Offer]]:
    """Return what is asked of a server that offers so much: method, params, and what they are about."""
    tools = offers[TOOL]
    calls = asked or [{"name": name, "arguments": _arguments(one, tools)} for name, one in tools.items()]
    return [
        *(("tools/call", {"arguments": {}, **call}, Offer(TOOL, call["name"], TRUSTED)) for call in calls),
        *(("resources/read", {"uri": uri}, Offer(RESOURCE, uri, TRUSTED)) for uri in offers[RESOURCE]),
        *(("prompts/get", {"name": name, "arguments": {}}, Offer(PROMPT, name, TRUSTED)) for name in offers[PROMPT]),
    ]


def _arguments(tool: Listed, tools: Mapping[str, Listed]) -> dict[str, Any]:
    if tool.name == "json_schema_echo":
        return {"schema": tools["json_schema_2020_12_tool"].definition["inputSchema"]}  # as the hub keeps it
    schema = tool.definition.get("inputSchema", {})
    properties = schema.get("properties", {})
    return {name: _VALUES.get(properties.get(name, {}).get("type"), "test") for name in schema.get("required", [])}


async def main(url: str) -> None:
    from tools_catalog.discovery.proposals import fault_of

    listed: asyncio.Future[Offers] = asyncio.get_running_loop().create_future()

    async def discovered(connection_id: int, offers: Offers) -> None:
        if not listed.done():
            listed.set_result(offers)

    pool = Pool(ConnectionEnvironment(secret=lambda name, host: "", version="1", discovered=discovered))
    asking = Asking(connection="suite", samples=True, lists_roots=True)
    spec = ConnectionSpec(id=1, slug="suite", transport="streamable-http", url=url, starts_eagerly=True, asking=asking)
    pool.follow({"suite": spec})
    asked = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}")).get("toolCalls")
    person = ToolContextParts(
        call=CallInfo(
            invocation_id="suite",
            tool_name="suite",
            caller_label="suite",
            caller_principal="key:suite",
            client_capabilities={"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}},
            meta={"progressToken": "suite"},
            log_level=LOG_LEVELS[0],
        ),
        deadline=TwentySeconds(),
        input=Person(),
    )
    async with asyncio.timeout(20):
        offers = await listed
    for method, params, offer in requests(offers, asked):
        if fault_of(offer.kind, offer.name, offers[offer.kind][offer.name].definition):
            continue
        try:
            async with asyncio.timeout(20):
                answer = await pool.request("suite", method, params, person, offer)
            print(offer.name, json.dumps(answer)[:200])
        except errors.HubError as error:
            print(offer.name, error.code, error)
    await pool.stop()


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    os.environ.setdefault("MCPHUB_DATA_DIR", tempfile.mkdtemp())
    os.environ["MCPHUB_EGRESS_ALLOW"] = "127.0.0.1,localhost,::1"
    django.setup()
    asyncio.run(main(sys.argv[-1]))
