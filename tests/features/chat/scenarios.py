"""Every way a provider may behave in one turn, and what the client must hear of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.features.chat.script import SWELLS, Step, calls, error, say

MCP = [{"type": "mcp", "server_label": "hub", "server_url": "hub", "require_approval": "never"}]
OWN = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}
"""A function that the client runs itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    name: str
    steps: list[Step]
    text: str | None = None
    """What the model is heard to say; None where the turn fails."""
    status: int = 200
    code: str | None = None
    """Of the error."""
    retries: bool = True
    """Whether the client is told that it may try again."""
    breaks_off: bool = False
    """The error comes in the middle: in a stream behind some text, and with no status of its own."""
    finish: str = "stop"
    usage: bool = True
    tools: tuple[str, ...] = ()
    """Tools of the hub that are called, in the order of the conversation."""
    own: bool = False
    """The client brings a function of its own, and its calls come out."""
    only: tuple[bool, ...] = (False, True)
    """With streams, or without."""
    providers: tuple[str, ...] = ("openai", "huawei_maas")
    more: dict[str, Any] = field(default_factory=dict)
    """Further members of the request."""

    def __str__(self) -> str:
        return self.name


ADD = ("add", {"a": 2, "b": 3})
ECHO = ("echo", {"text": "Жёлтый 😀"})

ANSWERS = [
    Scenario(name="says", steps=[say("Hello there.")], text="Hello there."),
    Scenario(name="says-nothing", steps=[say("")], text=""),
    Scenario(name="cut-characters", steps=[say("Жёлтый 😀 кит", bytes=1, pieces=1)], text="Жёлтый 😀 кит"),
    *(
        Scenario(name=f"wire-{style}", steps=[say("Жёлтый 😀", wire=style, bytes=2)], text="Жёлтый 😀")
        for style in ("crlf", "cr", "multiline")
    ),
    Scenario(name="no-done", steps=[say("Ends without a word.", done=False)], text="Ends without a word."),
    Scenario(name="no-usage", steps=[say("Free.", usage="missing")], text="Free.", usage=False),
    Scenario(name="null-usage", steps=[say("Free.", usage="null")], text="Free.", usage=False),
    Scenario(name="null-choices", steps=[say("Odd.", usage="choices_null")], text="Odd."),
    Scenario(name="thinks", steps=[say("So.", think="Hm, hm.")], text="So."),
    Scenario(name="length", steps=[say("It goes on and", finish="length")], text="It goes on and", finish="length"),
    Scenario(name="filtered", steps=[say("I", finish="content_filter")], text="I", finish="content_filter"),
    Scenario(name="role-everywhere", steps=[say("Me, me.", quirk="role_everywhere")], text="Me, me."),
    Scenario(name="empty-finish", steps=[say("Until now.", quirk="empty_finish")], text="Until now."),
    Scenario(name="slow-first-byte", steps=[say("Late.", wait_ms=300)], text="Late."),
]

TURNS = [
    Scenario(name="one-tool", steps=[calls(ADD), say("Five.")], text="Five.", tools=("add",)),
    Scenario(
        name="says-and-calls",
        steps=[calls(ADD, say="Let me see. "), say("Five.")],
        text="Let me see. Five.",
        tools=("add",),
    ),
    Scenario(name="parallel", steps=[calls(ADD, ECHO, ADD), say("Done.")], text="Done.", tools=("add", "echo", "add")),
    Scenario(
        name="rounds",
        steps=[calls(ADD), calls(ECHO), calls(ADD), say("Done.")],
        text="Done.",
        tools=("add", "echo", "add"),
    ),
    Scenario(
        name="cut-arguments",
        steps=[calls(ECHO, bytes=1, pieces=1), say("Done.", bytes=1)],
        text="Done.",
        tools=("echo",),
    ),
    Scenario(
        name="interleaved",
        steps=[calls(ADD, ECHO, quirk="interleaved", pieces=2), say("Done.")],
        text="Done.",
        tools=("add", "echo"),
    ),
    Scenario(
        name="whole-calls",
        steps=[calls(ADD, ECHO, quirk="whole_calls"), say("Done.")],
        text="Done.",
        tools=("add", "echo"),
    ),
    Scenario(name="no-index", steps=[calls(ADD, quirk="no_index"), say("Done.")], text="Done.", tools=("add",)),
    Scenario(name="stop-with-calls", steps=[calls(ADD, finish="stop"), say("Done.")], text="Done.", tools=("add",)),
    Scenario(
        name="bad-arguments",
        steps=[calls(("add", '{"a": 2, "b')), calls(ADD), say("Five.")],
        text="Five.",
        tools=("add", "add"),
    ),
    Scenario(
        name="wrong-arguments",
        steps=[calls(("add", {"a": "two"})), calls(ADD), say("Five.")],
        text="Five.",
        tools=("add", "add"),
    ),
    Scenario(name="unknown-tool", steps=[calls(("nothing", {})), say("Sorry.")], text="Sorry.", tools=("nothing",)),
    Scenario(
        name="same-ids",
        steps=[calls((*ADD, "one"), (*ECHO, "one")), calls((*ADD, "one")), say("Done.")],
        text="Done.",
        tools=("add", "echo", "add"),
    ),
    Scenario(name="no-ids", steps=[calls((*ADD, ""), (*ECHO, "")), say("Done.")], text="Done.", tools=("add", "echo")),
    Scenario(
        name="repeats",
        steps=[calls(ADD), calls(ADD), calls(ADD), say("Enough.")],
        text="Enough.",
        tools=("add", "add", "add"),
    ),
    Scenario(name="own-function", steps=[calls(("look_up", {}))], text="", finish="tool_calls", own=True),
    Scenario(
        name="own-after-tool",
        steps=[calls(ADD), calls(("look_up", {}), ("look_up", {"a": 1}))],
        text="",
        finish="tool_calls",
        own=True,
        tools=("add",),
    ),
]

DOWN = "provider_unavailable"
ERRORS = [
    Scenario(name="server-error", steps=[error("server_error")], status=503, code=DOWN),
    Scenario(name="empty-500", steps=[error("empty_500")], status=503, code=DOWN),
    Scenario(name="redirect", steps=[error("redirect")], status=503, code=DOWN, retries=False),
    Scenario(name="no-choices", steps=[say("x", choices="empty")], status=503, code=DOWN),
    Scenario(name="html-200", steps=[{"strange": "content_type"}], status=503, code=DOWN),
    Scenario(name="not-json", steps=[{"strange": "not_json"}], status=503, code=DOWN),
    Scenario(name="half-json", steps=[{"strange": "truncated_json"}], status=503, code=DOWN),
    Scenario(name="bad-request", steps=[error("invalid_request")], status=400, code="invalid_query", retries=False),
    Scenario(
        name="vllm-bad-request", steps=[error("vllm_bad_request")], status=400, code="invalid_query", retries=False
    ),
    Scenario(
        name="too-long",
        steps=[error("context_length_exceeded")],
        status=400,
        code="context_length_exceeded",
        retries=False,
    ),
    Scenario(name="filter", steps=[error("content_filter")], status=400, code="content_filter", retries=False),
    Scenario(
        name="bad-key",
        steps=[error("invalid_api_key")],
        status=502,
        code="provider_authentication_failed",
        retries=False,
    ),
    Scenario(name="no-model", steps=[error("model_not_found")], status=404, code="model_not_found", retries=False),
    Scenario(name="quota", steps=[error("insufficient_quota")], status=429, code="insufficient_quota", retries=False),
    Scenario(
        name="credit", steps=[error("credit_balance_exhausted")], status=429, code="insufficient_quota", retries=False
    ),
    Scenario(name="rate-long", steps=[error("rate_limit_long")], status=503, code=DOWN),
    *(
        Scenario(
            name=f"maas-{code}",
            steps=[error(code)],
            status=status,
            code=said,
            retries=retries,
            providers=("huawei_maas",),
        )
        for code, status, said, retries in [
            ("ModelArts.81001", 400, "invalid_query", False),
            ("ModelArts.81002", 502, "provider_authentication_failed", False),
            ("ModelArts.81003", 502, "provider_authentication_failed", False),
            ("ModelArts.81004", 502, "provider_authentication_failed", False),
            ("ModelArts.81005", 429, "insufficient_quota", False),
            ("ModelArts.81006", 429, "insufficient_quota", False),
            ("ModelArts.81009", 404, "model_not_found", False),
            ("ModelArts.81011", 400, "content_filter", False),
        ]
    ),
    Scenario(
        name="breaks-off",
        steps=[say("So far so", cut="error", after=3)],
        status=503,
        code=DOWN,
        breaks_off=True,
        only=(True,),
    ),
    *(
        Scenario(
            name=f"connection-{cut}",
            steps=[say("So far so good", cut=cut, after=2)],
            status=503,
            code=DOWN,
            breaks_off=True,
        )
        for cut in ("reset", "close")
    ),
]

PASSING = [
    *(
        Scenario(name=f"passing-{name}", steps=[error(name, times=1)], text="At last.", providers=providers)
        for name, providers in [
            ("overloaded", ("openai", "huawei_maas")),
            ("rate_limit_exceeded", ("openai", "huawei_maas")),
            ("html_502", ("openai", "huawei_maas")),
            ("ModelArts.81101", ("huawei_maas",)),
            ("ModelArts.81103", ("huawei_maas",)),
            ("APIG.0203", ("huawei_maas",)),
        ]
    ),
    Scenario(name="passing-reset", steps=[say("x", cut="reset", times=1)], text="At last.", only=(False,)),
]
"""Faults that are over when the hub asks again, within the same turn; each takes a pause of a second or so."""

GIANT = [
    Scenario(
        name="giant-arguments",
        steps=[calls(("echo", {"text": SWELLS}), swell=100_000, pieces=20_000), say("Done.")],
        text="Done.",
        tools=("echo",),
    ),
    Scenario(
        name="arguments-over-the-bound",
        steps=[calls(("echo", {"text": SWELLS}), swell=5_000_000, pieces=100_000), say("Done.")],
        text="Done.",
        tools=("echo",),
    ),
    *(
        Scenario(name=f"giant-{kind}", steps=[{"strange": kind}], status=503, code=DOWN, breaks_off=kind == "huge")
        for kind in ("huge", "huge_line")
    ),
]
"""Much more than anybody wants: cut, or refused."""

STALLS = [
    Scenario(
        name="stall-before-the-first-byte",
        steps=[say("Never.", wait_ms=600_000)],
        status=503,
        code=DOWN,
        providers=("hasty",),
    ),
    Scenario(
        name="stall-between-chunks",
        steps=[say("So far so good", cut="stall", after=2)],
        status=503,
        code=DOWN,
        breaks_off=True,
        providers=("hasty",),
    ),
    Scenario(
        name="stall-after-a-tool",
        steps=[calls(ADD), say("Never.", wait_ms=600_000)],
        status=503,
        code=DOWN,
        providers=("hasty",),
        tools=("add",),
        breaks_off=True,
    ),
]
"""Silence, of a provider that is given a few seconds."""

ALL = [*ANSWERS, *TURNS, *ERRORS, *PASSING]
EVER = [*ALL, *GIANT, *STALLS]
"""With what takes its time."""
