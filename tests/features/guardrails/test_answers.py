"""Answers of clients to input requests: inspected as arguments are, whatever asks; those to the hub itself are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from invocations.call.context import CallInput, InputRequester, Suspended
from invocations.exchange import CallRequest
from invocations.models import McpToolInvocation
from invocations.reading import Reading, ReadRequest, Reads
from invocations.subject import RowSubject
from mcphub.features.guardrails.guardrail import (
    ARGUMENTS,
    CheckFailed,
    GuardedCall,
    Guardrail,
    GuardrailFinding,
    Guardrails,
    ToolGuardrails,
)
from mcphub.server.input_rounds import InputRounds
from sessions_app.protocol import revisions
from sessions_app.protocol.json import Json
from tests.invocations.calls.call_path import CallPath, Script, invocations, run, source, tool
from tools_catalog.call.base import ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Form, InputRequest, Relayed, Roots, Sample
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.detectors.scanning import named, scanner_of

pytestmark = pytest.mark.usefixtures("transactional_db")

MAIL, MASKED = "a@example.org", "[masked:email]"
CAN = {"elicitation": {}, "sampling": {}, "roots": {}}
TEXT = Form("What?", {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})
NUMBER = Form("Which card?", {"type": "object", "properties": {"card": {"type": "integer"}}})
SAID = {"action": "accept", "content": {"text": f"to {MAIL}"}}


class Failing:
    """A guardrail of one's own that cannot look at answers."""

    async def look(self, name: str, version: int, value: Json, call: GuardedCall, seconds: float) -> GuardrailFinding:
        if call.method == "tools/call":
            return GuardrailFinding()
        assert (call.direction, call.method) == (ARGUMENTS, "elicitation/create")
        raise CheckFailed("it is tired")


class Refusing:
    """A client that refuses what it is asked, in its own words."""

    resume_token = None

    async def ask(self, call: CallInput, requests: Mapping[str, InputRequest]) -> dict[str, Any]:
        error = {"error": {"code": -1, "message": f"Ask {MAIL}"}}
        [(key, request)] = requests.items()
        return {key: await call.taken(key, request, error, call.question(request.method, {}))}

    def suspended(self, invocation_id: str) -> Suspended:
        raise AssertionError("nobody suspends it")


def guardrail(action: str = "mask", kinds: str = "email", **fields: Any) -> Guardrail:
    scanner = None if "own" in fields else scanner_of(named(kinds.split()), None, None)
    return Guardrail(name="rail", version=1, action=action, scanner=scanner, direction=ARGUMENTS, **fields)


def asked(
    request: InputRequest,
    answer: Json,
    *guardrails: Guardrail,
    is_own: bool = False,
    client: InputRequester | None = None,
) -> tuple[Any, Any, McpToolInvocation, list[McpToolInvocation]]:
    """Call a tool that asks one thing, and was answered; return what it got, its result, its row and its questions'."""
    got: list[Any] = []

    async def play(arguments: dict[str, Any], context: Any) -> ToolResult:
        more = {"is_own": True} if is_own else {}
        got.append((await context.input.ask({"key": request}, **more))["key"])
        return ToolResult(content=[{"type": "text", "text": "done"}])

    async def scenario() -> Any:
        checks = {"guardrails": ToolGuardrails(guardrails, ())}
        asking = source(client_capabilities=CAN)
        params = {"name": "act", "inputResponses": {"key": answer}}
        asks = client or InputRounds.of(asking, revisions.revision("2026-07-28"), "tools/call", params)
        async with CallPath(tool(Script(play), checks=checks)) as path:
            wanted = CallRequest(name="act", arguments={}, make_requester=lambda: asks)
            made = await path.calls.call_tool(wanted, path.exchange(asking))
        return made, await invocations()

    made, rows = run(scenario)
    [row] = [each for each in rows if each.tool_name]
    return (got[0] if got else None), made.wire, row, [each for each in rows if each is not row]


@pytest.mark.parametrize(
    ("request_", "answer", "expected"),
    [
        (TEXT, SAID, lambda got: got.content["text"] == f"to {MASKED}"),
        (
            Sample("Say."),
            {"role": "assistant", "model": "m", "content": {"type": "text", "text": MAIL}},
            lambda got: got.text == MASKED,
        ),
        (Roots(), {"roots": [{"uri": "file:///a", "name": MAIL}]}, lambda got: got[0].name == MASKED),
        (
            Relayed("elicitation/create", {"message": "?", "requestedSchema": {}}),
            SAID,
            lambda got: got == {"action": "accept", "content": {"text": f"to {MASKED}"}},
        ),
    ],
    ids=["form", "sampling", "roots", "relayed"],
)
def test_the_tool_gets_the_answer_masked_and_the_call_has_it_on_record(
    request_: InputRequest, answer: Json, expected: Any
) -> None:
    got, _wire, row, _questions = asked(request_, answer, guardrail())
    assert expected(got), got
    assert row.guardrails == "rail@1 arguments mask: email 1"


def test_a_refused_answer_reaches_no_tool() -> None:
    got, wire, row, [question] = asked(TEXT, SAID, guardrail("refuse"))
    assert (got, row.error_code, question.error_code) == (None, "guardrail_refused", "guardrail_refused")
    assert "refuses the client's answer" in wire["content"][0]["text"]
    assert row.guardrails == "rail@1 arguments refuse: email 1"
    assert MAIL not in f"{row.__dict__} {question.__dict__}"


def test_a_flagged_answer_goes_on() -> None:
    got, _wire, row, [question] = asked(TEXT, SAID, guardrail("inspect"))
    assert (got.content["text"], question.status) == (f"to {MAIL}", "ok")
    assert row.guardrails == "rail@1 arguments inspect: email 1"


def test_an_answer_that_no_longer_fits_the_question_is_refused() -> None:
    answer = {"action": "accept", "content": {"card": 4111111111111111}}
    got, wire, row, _questions = asked(NUMBER, answer, guardrail(kinds="card"))
    assert (got, row.error_code) == (None, "guardrail_refused")
    assert "does not fit the question" in wire["content"][0]["text"]


def test_the_words_with_which_a_client_refuses_are_inspected() -> None:
    _got, wire, row, _questions = asked(TEXT, {}, guardrail(), client=Refusing())
    assert wire["content"][0]["text"].endswith(f"The client refused elicitation/create: Ask {MASKED}")
    assert (row.guardrails, row.error_code) == ("rail@1 arguments mask: email 1", "execution_error")


@pytest.mark.parametrize("fails_open", [True, False])
def test_a_guardrail_that_fails_at_an_answer_does_as_its_row_says(fails_open: bool) -> None:
    how = "open" if fails_open else "closed"
    got, wire, row, _questions = asked(TEXT, SAID, guardrail(own=Failing(), fails_open=fails_open))
    assert row.guardrails == f"rail@1 arguments failed {how}: it is tired"
    assert (got is not None, row.error_code) == ((True, "") if fails_open else (False, "guardrail_failed"))
    assert fails_open or "could not look at the client's answer" in wire["content"][0]["text"]


def test_answers_to_the_hub_itself_are_not_inspected() -> None:
    got, _wire, row, _questions = asked(TEXT, SAID, guardrail("refuse"), is_own=True)
    assert (got.content["text"], row.guardrails) == (f"to {MAIL}", None)


def test_the_answer_to_a_read_is_inspected_by_the_guardrails_of_its_connection() -> None:
    got: list[Any] = []

    async def work(context: ToolContext) -> dict[str, Json]:
        got.append((await context.input.ask({"key": TEXT}))["key"])
        return {"contents": []}

    async def scenario() -> Any:
        asking = source(client_capabilities=CAN)
        rounds = InputRounds.of(
            asking, revisions.revision("2026-07-28"), "resources/read", {"inputResponses": {"key": SAID}}
        )
        subject = RowSubject(method="resources/read", target="note://x", digest="1" * 64, connection="up")
        reading = Reading(subject=subject, label="The resource", seconds=20.0, is_static=False, work=work, answer=dict)
        wanted = ReadRequest(
            method="resources/read",
            scope="tools:call",
            asked="note://x",
            arguments={"uri": "note://x"},
            find=lambda: reading,
            make_requester=lambda: rounds,
        )
        mails = [guardrail(applies_to="connection", target=target) for target in ("up", "down")]
        async with CallPath() as path:
            catalog = Catalog((), checks={"guardrails": Guardrails(mails)})
            path.configuration = replace(path.configuration, catalog=catalog)
            await Reads(path.calls).read(wanted, path.exchange(asking))
        return await invocations()

    rows = run(scenario)
    [row] = [each for each in rows if each.method == "resources/read"]
    assert got[0].content["text"] == f"to {MASKED}"
    assert row.guardrails == "rail@1 arguments mask: email 1"
