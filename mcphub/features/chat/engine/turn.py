"""One turn: a client's request, prepared for the engine by any endpoint."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from django.conf import settings

from invocations.call_source import CallSource
from invocations.redaction.records import RecordRedaction
from mcphub.features.chat.messages import text_of
from mcphub.features.chat.providers.snapshot import ModelChoice
from mcphub.features.chat.tools.functions import function_name
from sessions_app.caller import Caller
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.catalog.toolsets import Toolset

if TYPE_CHECKING:
    from mcphub.features.chat.models.conversations import AIResponse, ChatSession

_SHARE_OF_TOOLS = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLimits:
    """The limits of one turn. Beyond a budget the model is asked once more, for an answer without tools."""

    rounds: int
    calls_per_round: int
    calls: int
    seconds: float
    """Of the turn as a whole."""
    result_bytes: int
    """Of all results together, as the model reads them."""
    one_result_bytes: int
    parallel: int
    repeats: int
    """The same call with the same arguments so often is answered by an error instead of being made."""

    @classmethod
    def from_settings(cls) -> TurnLimits:
        return cls(
            rounds=settings.MCPHUB_CHAT_MAX_ROUNDS,
            calls_per_round=settings.MCPHUB_CHAT_MAX_CALLS_PER_ROUND,
            calls=settings.MCPHUB_CHAT_MAX_CALLS,
            seconds=settings.MCPHUB_CHAT_TURN_SECONDS,
            result_bytes=settings.MCPHUB_CHAT_MAX_RESULT_BYTES,
            one_result_bytes=settings.MCPHUB_CHAT_MAX_ONE_RESULT_BYTES,
            parallel=settings.MCPHUB_CHAT_PARALLEL_CALLS,
            repeats=3,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSource:
    """The caller, and the way of the request."""

    call: CallSource
    """The source of each tool call of the turn, for the audit."""
    entry_point: str
    """A `Query.EntryPoint`."""
    metadata: dict[str, Json] = field(default_factory=dict)
    """Stored facts about the request besides its messages."""
    idempotency_key: str | None = None
    """The client's key. A turn that is repeated under it gets the results of calls that were made before."""
    request_id: str | None = None
    """The `x-request-id` of the response, which the audit keeps with each call."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A denied call."""

    reason: str = ""


class ApprovalGate(Protocol):
    """Which calls of a turn wait for an approval. Asked after the arguments were found valid."""

    def applies(self, tool: Tool) -> bool:
        """Return whether calls of this tool need an approval."""

    async def ask(self, turn: Turn, tool: Tool, call_id: str, arguments: dict[str, Json]) -> str | Denial | None:
        """Return None where the call may run now, the id of the approval that it waits for, or a denial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedCall:
    """A call of an earlier turn that somebody approved or denied. It is carried out before the model is asked."""

    approval_id: str
    call_id: str
    """As in the messages, where a result of this call reports that it waits."""
    name: str
    arguments: dict[str, Json]
    approve: bool
    reason: str = ""


@dataclass(slots=True, kw_only=True)
class Turn:
    id: uuid.UUID = field(default_factory=uuid.uuid4)
    """Of the turn's query, and in the audit of all its calls."""
    source: TurnSource
    choice: ModelChoice
    asked_for: str = ""
    """Model or provider that the client named; empty where it named none."""
    messages: list[dict[str, Json]]
    """As the client sent them: the whole conversation, or with a session the new part. Once the turn has begun, the
    messages for the model; paired: each tool call has its result.
    """
    tools: list[Tool] = field(default_factory=list)
    """Of the catalogue, all of which the caller may call."""
    reached: list[Tool] = field(default_factory=list)
    """Also of the catalogue: not in the model's list, but found by searching."""
    searched: Toolset | None = None
    """The toolset with the search tools."""
    client_tools: list[dict[str, Json]] = field(default_factory=list)
    """Functions that the client runs itself: `{"type": "function", "function": {…}}`, checked."""
    may_mix_calls: bool = False
    """Whether the results of the hub's calls are kept where the client goes on with its own."""
    parameters: dict[str, Json] = field(default_factory=dict)
    """Members that are forwarded to the provider."""
    stream: bool = False
    limits: TurnLimits = field(default_factory=TurnLimits.from_settings)
    gate: ApprovalGate | None = None
    decided: list[DecidedCall] = field(default_factory=list)
    session_id: str | None = None
    session: ChatSession | None = None
    """The conversation that the turn goes on with, once it has begun."""
    response: AIResponse | None = None
    """The answer, once it is stored."""
    record: RecordRedaction = field(default_factory=RecordRedaction)
    """Redaction of the turn's rows, under the rules in force at its start."""
    began: float = field(default_factory=time.monotonic)

    @property
    def caller(self) -> Caller:
        return self.source.call.caller

    @property
    def ends_at(self) -> float:
        """The moment (monotonic seconds) by which the answer is there."""
        return self.began + self.limits.seconds

    @property
    def tools_end_at(self) -> float:
        """The deadline of tools, which leaves the model time for an answer."""
        return self.began + self.limits.seconds * _SHARE_OF_TOOLS

    @property
    def question(self) -> str:
        """The user's last message."""
        questions = (message["content"] for message in reversed(self.messages) if message["role"] == "user")
        return text_of(next(questions, ""))

    @property
    def client_functions(self) -> frozenset[str]:
        """Names of the functions that the client runs itself, as the model knows them."""
        return frozenset(function_name(str(each["function"]["name"])) for each in self.client_tools)
