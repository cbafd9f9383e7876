"""The errors of guardrails: for refused values, failed looks, and values that masks leave unfit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mcphub.features.guardrails.guardrail import ARGUMENTS, CALL, RESULT, GuardedCall, Guardrail
from sessions_app.protocol.errors import GuardrailFailed, GuardrailRefused, HubError

ANSWER: Final = "answer"
"""Of a client to an input request, beside the two directions."""

_REFUSED: Final[Mapping[str, str]] = {
    ARGUMENTS: "A guardrail of this hub refuses the arguments, so the tool was not called.",
    ANSWER: "A guardrail of this hub refuses the client's answer, so the tool did not get it.",
    RESULT: "A guardrail of this hub withholds the result. The tool did run.",
}
_FAILED: Final[Mapping[str, str]] = {
    ARGUMENTS: (
        "A guardrail of this hub could not look at the arguments, so the tool was not called. Try again later, or tell "
        "the operator."
    ),
    ANSWER: (
        "A guardrail of this hub could not look at the client's answer, so the tool did not get it. What it did before "
        "stays. Try again later, or tell the operator."
    ),
    RESULT: (
        "A guardrail of this hub could not look at the result, so it is withheld. The tool did run. Tell the operator."
    ),
}
_UNFIT: Final[Mapping[str, str]] = {
    ARGUMENTS: (
        "A guardrail of this hub masks a part of the arguments, and without it they do not fit the tool's input "
        "schema, so the tool was not called. Leave out what must not be sent."
    ),
    ANSWER: (
        "A guardrail of this hub masks a part of the client's answer, and without it the answer does not fit the "
        "question, so the tool did not get it. What it did before stays."
    ),
    RESULT: "A guardrail of this hub masks a part of the result, and without it the result breaks its output schema.",
}


def refused(guardrail: Guardrail, call: GuardedCall) -> HubError:
    return GuardrailRefused(guardrail.words or _REFUSED[_part(call)])


def failed(call: GuardedCall) -> HubError:
    """Return the error of a guardrail that fails closed."""
    return GuardrailFailed(_FAILED[_part(call)])


def unfit(part: str) -> HubError:
    """Return the error for a masked value that breaks its schema. `part`: a direction, or `ANSWER`."""
    return GuardrailRefused(_UNFIT[part])


def _part(call: GuardedCall) -> str:
    return ANSWER if call.direction == ARGUMENTS and call.method != CALL else call.direction
