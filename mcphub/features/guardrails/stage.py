"""The effect of guardrails on arguments and results of calls, and on answers of clients, and its record.

The record names the guardrail, its version and action, and the number of findings by kind. It never contains the
findings themselves.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from invocations.call.call import Call
from invocations.configuration import Configuration
from invocations.ledger.rows import Recorded
from invocations.stages import Place, Proceed, Refuse, ResultStage, Stage, StageAnswer
from invocations.subject import COMPLETE, RowSubject
from mcphub.features.guardrails.guardrail import (
    ARGUMENTS,
    CALL,
    MASK,
    REFUSE,
    RESULT,
    CheckFailed,
    Direction,
    GuardedCall,
    Guardrail,
    GuardrailFinding,
    Guardrails,
    ToolGuardrails,
)
from mcphub.features.guardrails.refusals import ANSWER, failed, refused, unfit
from sessions_app.protocol import json
from sessions_app.protocol.errors import Cancelled, GuardrailFailed, GuardrailRefused, HubError, ServerBusy
from sessions_app.protocol.json import Json
from tools_catalog.backends.threads import ToolThreads
from tools_catalog.call.base import NOTHING
from tools_catalog.call.input_requests import InputRequest, InvalidInputResponse
from tools_catalog.call.noted import Noted
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.detectors.scanning import Scan, Scanner

if TYPE_CHECKING:
    from invocations.calling import Calls

CHECKS_NAME = "guardrails"
"""The name of the `CallChecks` that the feature declares."""
MAX_SAID = 4000
"""Characters of the record."""
_MOST_KINDS = 12
_MAX_REASON = 120
_AT_ONCE = 64 * 1024
"""Characters of a value that is looked at where it is, if nothing is in it: in less than a millisecond."""
_SMALL = 4 * 1024
"""Of one that is looked at where it is in any case."""
_THREADS = 2
"""Of a process, for larger values and those in which something is. They take time in proportion to their length."""


@dataclass(frozen=True, slots=True)
class GuardedValue:
    """A value after guardrails."""

    value: Json
    said: str | None = None
    refusal: HubError | None = None


class Guarding(Stage):
    """Asks the guardrails of a call, one after the other: of its arguments, of its client's answers, and of its
    result. One a process.
    """

    place = Place.ON_ARGUMENTS

    def __init__(self, calls: Calls) -> None:
        self._judge = calls.judge
        self.results = GuardingResults(self)
        self.decisions: Counter[tuple[str, str]] = Counter()
        """Of this process since its start, by guardrail and `inspected`, `masked`, `refused`, `watched`, `failed_open`,
        `failed_closed`."""
        self._threads = ToolThreads(_THREADS, name="detector")

    def stop(self) -> None:
        self._threads.close()

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        found = _of(tool)
        return found is not None and bool(found.arguments)

    async def decide(self, call: Call) -> StageAnswer:
        """Continue the call with the arguments that guardrails leave."""
        guardrails = _of(call.tool)
        assert guardrails is not None
        looked = await self.look(guardrails.arguments, call.arguments, call.text, _facts(call.record, ARGUMENTS))
        _note(call.record, looked.said)
        if looked.refusal is not None:
            return Refuse(looked.refusal)
        masked: dict[str, Json] = looked.value
        if masked is call.arguments:
            return Proceed(call)
        if not await self._fits(call, json.canonical(masked), masked):
            return Refuse(unfit(ARGUMENTS))
        made = call.with_arguments(masked)
        key = made.record.key
        if key is not None and not made.approval_id:
            # Of what was masked a keyed digest shows whether it is the same; a plain one could be guessed at.
            kept = call.exchange.configuration.redaction.tag(call.arguments)
            made.record.key = (key[0], key[1], json.digest(f"{call.tool.name}\n{kept}"))
        return Proceed(made)

    async def _fits(self, call: Call, text: str, masked: dict[str, Json]) -> bool:
        if call.tool.arguments.may_hold(text):
            return await self._judge.wrong(call.tool.arguments, text, call.work.principal) is None
        return call.tool.arguments.is_valid(masked)

    async def answer(self, record: Recorded, request: InputRequest, value: dict[str, Json]) -> dict[str, Json]:
        """Return a client's answer as the guardrails of arguments let it go on, with a note in `record`."""
        guardrails = _of_answers(record)
        if not guardrails:
            return value
        facts = replace(_facts(record, ARGUMENTS), method=request.method)
        looked = await self.look(guardrails, value, json.canonical(value), facts)
        _note(record, looked.said)
        if looked.refusal is not None:
            raise looked.refusal
        fresh: dict[str, Json] = looked.value
        if fresh is not value and _is_readable(request, value) and not _is_readable(request, fresh):
            raise unfit(ANSWER)
        return fresh

    async def look(self, guardrails: Iterable[Guardrail], value: Json, text: str, call: GuardedCall) -> GuardedValue:
        """Return the value as it goes on, or why it does not. `text`: its canonical JSON. Stops at the first
        refusal.
        """
        said: list[str] = []
        for each in guardrails:
            place = f"{each.name}@{each.version} {call.direction}"
            try:
                found = await self._found(each, value, text, call)
            except CheckFailed as error:
                how = "open" if each.fails_open or each.watching else "closed"
                said.append(f"{place} failed {how}: {str(error)[:_MAX_REASON]}")
                self.decisions[each.name, f"failed_{how}"] += 1
                if how == "closed":
                    return GuardedValue(value, _joined(said), failed(call))
                continue
            if not found.kinds:
                continue
            kinds = _counted(found.kinds)
            if each.watching:
                said.append(f"{place} would {each.action}: {kinds}")
                self.decisions[each.name, "watched"] += 1
                continue
            said.append(f"{place} {each.action}: {kinds}")
            self.decisions[each.name, _DONE[each.action]] += 1
            if each.action == REFUSE:
                return GuardedValue(value, _joined(said), refused(each, call))
            if each.action == MASK:
                value = found.value
                text = json.canonical(value)
        return GuardedValue(value, _joined(said) if said else None)

    async def passed(
        self,
        guardrails: Iterable[Guardrail],
        value: Json,
        text: str,
        record: Recorded,
        subject: Tool | RowSubject,
        method: str = "",
    ) -> Json:
        """Return a result of `subject` as guardrails let it go on, with a note in `record`. Raises the refusal.

        `method`: of a message to the client before the result.
        """
        facts = _facts(record, RESULT, subject)
        try:
            looked = await self.look(guardrails, value, text, replace(facts, method=method) if method else facts)
        except asyncio.CancelledError:
            raise Cancelled from None
        _note(record, looked.said)
        if looked.refusal is not None:
            raise looked.refusal
        return looked.value

    async def _found(self, guardrail: Guardrail, value: Json, text: str, call: GuardedCall) -> GuardrailFinding:
        masks = guardrail.action == MASK and not guardrail.watching
        if guardrail.scanner is not None:
            scan = await self._scanned(guardrail.scanner, value, text, call.principal, masks, guardrail.seconds)
            return GuardrailFinding(scan.kinds, scan.value)
        if guardrail.own is None:
            raise CheckFailed(guardrail.broken or "it names nothing that looks")
        found = await guardrail.own.look(guardrail.name, guardrail.version, value, call, guardrail.seconds)
        if masks and found.kinds:
            _check_masked(found, value)
        return found

    async def _scanned(
        self, scanner: Scanner, value: Json, text: str, principal: str, masks: bool, seconds: float
    ) -> Scan:
        if len(text) <= _SMALL:
            return scanner.scan(value, text, masks=masks)
        if len(text) <= _AT_ONCE and scanner.is_clean(value, text):
            return Scan(value=value)
        until = time.monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                return await self._threads.run(
                    lambda: scanner.scan(value, text, masks=masks, until=until), caller=principal
                )
        except TimeoutError as error:
            raise CheckFailed(f"its detectors take longer than {seconds:g} s") from error
        except ServerBusy as error:
            raise CheckFailed("too many large values wait to be looked at") from error


class GuardingResults(ResultStage):
    """Runs the guardrails of results: of calls and of reads."""

    def __init__(self, guarding: Guarding) -> None:
        self._guarding = guarding

    def concerns(self, subject: Tool | RowSubject, configuration: Configuration) -> bool:
        return bool(_of_results(subject, configuration))

    async def result(
        self, record: Recorded, value: dict[str, Json], text: str, subject: Tool | RowSubject | None = None
    ) -> tuple[dict[str, Json], str]:
        """Return a result as guardrails let it go on, with its canonical JSON. Raises the refusal."""
        subject = subject or record.tool
        guardrails = _of_results(subject, record.configuration)
        fresh = await self._guarding.passed(guardrails, value, text, record, subject)
        return (value, text) if fresh is value else (fresh, json.canonical(fresh))

    async def before(self, record: Recorded, method: str, value: dict[str, Json]) -> dict[str, Json]:
        guardrails, text = _of_results(record.tool, record.configuration), json.canonical(value)
        found: dict[str, Json] = await self._guarding.passed(guardrails, value, text, record, record.tool, method)
        return found

    async def sent(self, value: Json, subject: RowSubject, configuration: Configuration) -> Json:
        guardrails = _of_results(subject, configuration)
        call = GuardedCall(
            direction=RESULT, tool=subject.target, method=subject.method, connection=subject.connection or ""
        )
        looked = await self._guarding.look(guardrails, value, json.canonical(value), call)
        if looked.refusal is not None:
            raise looked.refusal
        return looked.value

    def unfit(self) -> HubError:
        return unfit(RESULT)

    async def failure(
        self, record: Recorded, failure: HubError, rendered: dict[str, Json]
    ) -> tuple[HubError, dict[str, Json]]:
        """Return a failure after guardrails: its message may quote arguments or results."""
        if isinstance(failure, GuardrailRefused | GuardrailFailed):
            return failure, rendered
        told: dict[str, Json] = {"message": rendered["message"], "details": rendered["data"].get("details", {})}
        try:
            fresh, _text = await self.result(record, told, json.canonical(told))
        except HubError as refusal:
            refusal.invocation_id = record.invocation_id
            rendered = record.configuration.errors.render(
                refusal, invocation_id=record.invocation_id, trace_id=record.source.trace_id, tool=record.tool.name
            )
            return refusal.parted(), rendered
        if fresh is told:
            return failure, rendered
        failure.message, failure.details = fresh["message"], fresh["details"]
        return failure, {
            **rendered,
            "message": failure.message,
            "data": {**rendered["data"], "details": failure.details},
        }


def _of_results(subject: Tool | RowSubject, configuration: Configuration) -> tuple[Guardrail, ...]:
    """Return the guardrails for the result of a call or a read, or for what an upstream sends.

    Completions have none: each is one of few words that the hub or an upstream offers.
    """
    found = None if subject.method == COMPLETE else _of_subject(subject, configuration)
    return () if found is None else found.result


def _of_answers(record: Recorded) -> tuple[Guardrail, ...]:
    """Return the guardrails for answers to the input requests of a call or a read."""
    found = _of_subject(record.tool, record.configuration)
    return () if found is None else found.arguments


def _is_readable(request: InputRequest, answer: Mapping[str, Json]) -> bool:
    try:
        request.read(answer)
    except InvalidInputResponse:
        return False
    return True


def _of_subject(subject: Tool | RowSubject, configuration: Configuration) -> ToolGuardrails | None:
    if isinstance(subject, Tool):
        return _of(subject)
    known = cast("Guardrails | None", configuration.catalog.checks.get(CHECKS_NAME))
    return None if known is None else known.of_read(subject.connection)


def _of(tool: Tool) -> ToolGuardrails | None:
    return cast("ToolGuardrails | None", tool.checks.get(CHECKS_NAME))


def _note(record: Recorded, said: str | None) -> None:
    """Add the actions of guardrails to the record, after earlier ones."""
    if said:
        record.note(Noted(guardrails=_joined([each for each in (record.noted.guardrails, said) if each])))


_DONE: Mapping[str, str] = {"inspect": "inspected", "mask": "masked", "refuse": "refused"}


def _facts(record: Recorded, direction: Direction, subject: Tool | RowSubject | None = None) -> GuardedCall:
    subject, caller = subject or record.tool, record.source.caller
    return GuardedCall(
        direction=direction,
        tool=subject.name or subject.target or "",
        method=subject.method or CALL,
        connection=subject.connection or "",
        principal=caller.principal,
        label=caller.label,
    )


def _joined(said: list[str]) -> str:
    return "; ".join(said)[:MAX_SAID]


def _counted(kinds: Mapping[str, int]) -> str:
    shown = sorted(kinds.items(), key=lambda pair: (-pair[1], pair[0]))
    words = [f"{kind} {count}" for kind, count in shown[:_MOST_KINDS]]
    return ", ".join([*words, "…"] if len(shown) > _MOST_KINDS else words)


def _check_masked(found: GuardrailFinding, value: Json) -> None:
    if found.value is NOTHING:
        raise CheckFailed("it found something and gave no value without it")
    if type(found.value) is not type(value):
        raise CheckFailed(f"it gave a {type(found.value).__name__} in place of a {type(value).__name__}")
    try:
        json.canonical(found.value)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckFailed("the value that it gave is no JSON") from error
