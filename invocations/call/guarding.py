"""What guardrails do to the arguments and results of calls, and the record of it.

The record says which guardrail acted, in which version, with which action, and how often which kind was found. It never
says what was found.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from invocations.call.judging import Judge
from invocations.call.running import Call, Read
from sessions_app.protocol import json
from sessions_app.protocol.errors import Cancelled, GuardrailFailed, GuardrailRefused, HubError, ServerBusy
from sessions_app.protocol.json import Json
from tools_catalog.backends.threads import ToolThreads
from tools_catalog.call.base import NOTHING
from tools_catalog.guardrails.guardrail import (
    ARGUMENTS,
    MASK,
    REFUSE,
    REFUSED_ARGUMENTS,
    REFUSED_RESULT,
    RESULT,
    CheckFailed,
    Direction,
    GuardedCall,
    Guardrail,
    GuardrailFinding,
    ToolGuardrails,
)
from tools_catalog.guardrails.scanning import Scan, Scanner

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

NEEDED_ARGUMENTS = (
    "A guardrail of this hub masks a part of the arguments, and without it they do not fit the tool's input schema, so "
    "the tool was not called. Leave out what must not be sent."
)
NEEDED_RESULT = (
    "A guardrail of this hub masks a part of the result, and without it the result breaks its output schema."
)


@dataclass(frozen=True, slots=True)
class GuardedValue:
    """What guardrails made of a value."""

    value: Json
    said: str | None = None
    refusal: HubError | None = None


class Guarding:
    """Asks the guardrails of a call, one after the other. One a process."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.decisions: Counter[tuple[str, str]] = Counter()
        """Of this process since its start, by guardrail and `inspected`, `masked`, `refused`, `watched`, `failed_open`,
        `failed_closed`."""
        self._threads = ToolThreads(_THREADS, name="detector")

    def stop(self) -> None:
        self._threads.close()

    async def arguments(self, call: Call, arguments: dict[str, Json]) -> dict[str, Json]:
        """Give the arguments as guardrails let them go on, and note in the call what they did. Raises what refuses."""
        if call.tool.guardrails is None:
            return arguments
        text = json.canonical(arguments)
        looked = await self.look(call.tool.guardrails.arguments, arguments, text, _facts(call, ARGUMENTS))
        call.guarded = _both(call.guarded, looked.said)
        if looked.refusal is not None:
            raise looked.refusal
        masked: dict[str, Json] = looked.value
        if masked is arguments:
            return arguments
        text = json.canonical(masked)
        if call.tool.arguments.may_hold(text):
            fits = await self._judge.wrong(call.tool.arguments, text, call.principal) is None
        else:
            fits = call.tool.arguments.is_valid(masked)
        if not fits:
            raise GuardrailRefused(NEEDED_ARGUMENTS)
        return masked

    async def result(
        self, call: Call | Read, guardrails: ToolGuardrails, value: dict[str, Json], text: str
    ) -> tuple[dict[str, Json], str]:
        """Give a result as guardrails let it go on, with its canonical JSON, and note in the call what they did.

        Raises what withholds it; Cancelled where the request is cancelled, which passes on once that is on record.
        """
        try:
            looked = await self.look(guardrails.result, value, text, _facts(call, RESULT))
        except asyncio.CancelledError:
            raise Cancelled from None
        call.guarded = _both(call.guarded, looked.said)
        if looked.refusal is not None:
            raise looked.refusal
        return (value, text) if looked.value is value else (looked.value, json.canonical(looked.value))

    async def failure(
        self, call: Call, failure: HubError, rendered: dict[str, Json]
    ) -> tuple[HubError, dict[str, Json]]:
        """Give a failure as guardrails let it go on: its words may quote what the tool was given, or found."""
        if call.tool.guardrails is None or isinstance(failure, GuardrailRefused | GuardrailFailed):
            return failure, rendered
        told: dict[str, Json] = {"message": rendered["message"], "details": rendered["data"].get("details", {})}
        try:
            fresh, _text = await self.result(call, call.tool.guardrails, told, json.canonical(told))
        except HubError as refusal:
            refusal.invocation_id = call.invocation_id
            rendered = call.configuration.errors.render(
                refusal, invocation_id=call.invocation_id, trace_id=call.source.trace_id, tool=call.tool.name
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

    async def look(self, guardrails: Iterable[Guardrail], value: Json, text: str, call: GuardedCall) -> GuardedValue:
        """Give the value as it goes on, or why it does not. `text`: its canonical JSON. Stops at the first refusal."""
        said: list[str] = []
        for each in guardrails:
            place = f"{each.name}@{each.version} {call.direction}"
            try:
                found = await self._found(each, value, text, call)
            except CheckFailed as failed:
                how = "open" if each.fails_open or each.watching else "closed"
                said.append(f"{place} failed {how}: {str(failed)[:_MAX_REASON]}")
                self.decisions[each.name, f"failed_{how}"] += 1
                if how == "closed":
                    return GuardedValue(value, _joined(said), _failure(call))
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
                return GuardedValue(value, _joined(said), _refusal(each, call))
            if each.action == MASK:
                value = found.value
                text = json.canonical(value)
        return GuardedValue(value, _joined(said) if said else None)

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


_DONE: Mapping[str, str] = {"inspect": "inspected", "mask": "masked", "refuse": "refused"}


def _facts(call: Call | Read, direction: Direction) -> GuardedCall:
    tool = call.tool
    return GuardedCall(
        direction=direction,
        tool=tool.name or tool.target or "",
        method=tool.method or "tools/call",
        connection=tool.connection or "",
        principal=call.principal,
        label=call.source.caller.label,
    )


def _both(before: str | None, after: str | None) -> str | None:
    """Give the record of both hooks."""
    return _joined([each for each in (before, after) if each]) if before or after else None


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


def _refusal(guardrail: Guardrail, call: GuardedCall) -> HubError:
    return GuardrailRefused(guardrail.words or (REFUSED_ARGUMENTS if call.direction == ARGUMENTS else REFUSED_RESULT))


def _failure(call: GuardedCall) -> HubError:
    if call.direction == ARGUMENTS:
        return GuardrailFailed(
            "A guardrail of this hub could not look at the arguments, so the tool was not called. Try again later, or "
            "tell the operator."
        )
    return GuardrailFailed(
        "A guardrail of this hub could not look at the result, so it is withheld. The tool did run. Tell the operator."
    )
