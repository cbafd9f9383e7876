"""What a scripted provider shall do, written into the last message of a user.

    text = script(calls(("sum", {"a": 1, "b": 2})), say("Three."))

The provider takes the first step for the first round of the turn, the second one after the tool's result, and so
on; the last step serves all further rounds. A script travels with the request, so any number of tests may share one
provider at once.

Fields of a step, all optional:

    say              text of the answer, before the calls where there are some
    calls            [[name, arguments, id?]]; arguments as text are sent as they are
    swell            so many characters stand in the arguments for each `SWELLS`
    think            `reasoning_content` before the text
    sign             each call carries this as its thought signature; a request whose calls lack it is refused
    error            a name of `complaints.COMPLAINTS`, instead of an answer
    strange          `content_type`, `not_json`, `truncated_json`, `huge`, `huge_line`: a 200 that is no answer
    times            how many attempts of the same request the `error`, `strange` or `cut` is for; later ones get `then`
    then             the step for the attempts after `times`; by default a text
    finish           `finish_reason`, instead of the right one
    usage            `missing`, `null`, `choices_null`, or [prompt, completion]
    choices          `empty`: an answer without choices
    wire             `crlf`, `cr`, `multiline`: how events are written; `lf` else
    bytes            so many bytes in each write, which cuts characters in two
    pieces           characters in each delta
    quirk            `no_index`, `whole_calls`, `interleaved`, `role_everywhere`, `empty_finish`
    done             false: no `[DONE]`
    wait_ms          before the first byte;  pause_ms: before each delta
    after            so many deltas come before `cut`
    cut              `error`, `reset`, `close`, `stall`: what happens then; answers in one piece end half-way
"""

from __future__ import annotations

import json
from typing import Any

MARK = "@@script "
SWELLS = "@@swells"
Step = dict[str, Any]


def say(text: str, **fields: Any) -> Step:
    return {"say": text, **fields}


def calls(*wanted: tuple[Any, ...], **fields: Any) -> Step:
    """Each call is (name, arguments) or (name, arguments, id)."""
    return {"calls": [list(each) for each in wanted], **fields}


def error(name: str, **fields: Any) -> Step:
    return {"error": name, **fields}


def script(*steps: Step, prompt: str = "") -> str:
    """Return the text of a user's message that makes a scripted provider do this."""
    return f"{prompt}{MARK}{json.dumps(list(steps), ensure_ascii=False, separators=(',', ':'))}"


def steps_of(messages: list[dict[str, Any]]) -> tuple[list[Step], int, str]:
    """Return the script of the last user message, the round of the turn from 0, and the text itself."""
    said = [at for at, each in enumerate(messages) if each.get("role") == "user"]
    # Models without functions are told results by messages of the user; so does smolagents tell all models.
    last = max(
        (at for at in said if not text_of(messages[at].get("content")).startswith(("Result of ", "Observation:"))),
        default=-1,
    )
    text = text_of(messages[last].get("content")) if last >= 0 else ""
    turn = sum(1 for each in messages[last + 1 :] if each.get("role") == "assistant")
    _, mark, written = text.partition(MARK)
    steps: list[Step] = json.JSONDecoder().raw_decode(written)[0] if mark else []
    return steps, turn, text


def text_of(content: Any) -> str:
    """Return a message's content as text, whether it is one or a list of parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
