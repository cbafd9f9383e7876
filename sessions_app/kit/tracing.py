"""Spans and durations of the hub's work for collectors: OpenTelemetry's conventions for MCP.

`with tracing.span("mcphub.policy") as span: span.set("mcphub.policy.rule", name)` is all that a further step of a call
needs. Without a `Recorder`, which `mcphub/process/telemetry.py` puts in place, and in a request that is not sampled,
that is one look at a context variable. OpenTelemetry itself is imported by whoever makes the recorder.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from sessions_app.protocol.errors import INTERNAL_ERROR, HubError

if TYPE_CHECKING:
    from opentelemetry.trace import Span as OtelSpan

    from sessions_app.protocol.json import Json

Kind = Literal["server", "client", "internal"]
Attribute = str | int | float | bool
TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]{0,200})?")
_LONGEST_STATE: Final = 512
"""Characters of a tracestate that all must pass on (W3C Trace Context, 3.3.1.5)."""
TOOL_ERROR: Final = "tool_error"
"""The error.type of a result with isError."""
_MOST_NAMES: Final = 500
OTHER: Final = "_OTHER"
"""OpenTelemetry's value for anything beyond the distinguished ones."""

TRANSPORT_PIPE: Final[Mapping[str, Attribute]] = {"network.transport": "pipe"}
TRANSPORT_HTTP: Final[Mapping[str, Attribute]] = {"network.transport": "tcp", "network.protocol.name": "http"}


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The parent span of a request, according to its sender (W3C Trace Context)."""

    parent: str
    state: str = ""

    @property
    def trace_id(self) -> str:
        return self.parent[3:35]

    @property
    def is_sampled(self) -> bool:
        return bool(int(self.parent[53:55], 16) & 1)


def sent_context(carrier: Mapping[str, Json] | None) -> TraceContext | None:
    """Return the context that `_meta`, or headers, bring; None where there is none, or none that is valid."""
    parent = carrier.get("traceparent") if isinstance(carrier, dict) else None
    if not isinstance(parent, str) or not TRACEPARENT.fullmatch(parent):
        return None
    _, trace_id, span_id, _ = parent.split("-", 3)
    if parent.startswith("ff") or not trace_id.strip("0") or not span_id.strip("0"):
        return None
    assert carrier is not None
    state = carrier.get("tracestate")
    is_state = isinstance(state, str) and len(state) <= _LONGEST_STATE and state.isascii() and state.isprintable()
    return TraceContext(parent, state if is_state else "")  # type: ignore[arg-type]  # `is_state` says that it is text


class Recorder:
    """Makes spans and keeps durations. Its subclass records; this one is the hub's interface."""

    holds_bodies = False
    """Spans include arguments and results, as the audit records them."""

    def begin(
        self,
        name: str,
        kind: Kind,
        attributes: Mapping[str, Attribute],
        *,
        under: OtelSpan | TraceContext | None,
        link: TraceContext | None = None,
    ) -> OtelSpan | None:
        """Begin a span; None where the trace is not sampled."""
        raise NotImplementedError

    def took(self, kind: Kind, seconds: float, labels: Mapping[str, Attribute]) -> None:
        """Keep the duration of an operation of MCP, with labels of which there are few."""
        raise NotImplementedError

    def session_took(self, kind: Kind, seconds: float, labels: Mapping[str, Attribute]) -> None:
        raise NotImplementedError


class NoSpan:
    """In place of a span, where nobody records one."""

    __slots__ = ()
    trace_id = span_id = ""
    is_recording = False
    tells_bodies = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        pass

    def set(self, name: str, value: Attribute) -> None:
        pass

    def is_of_tool(self, name: str) -> None:
        """Name the tool of a call, once it is found: a client's request may contain any text."""

    def failed(self, error_type: str, code: str = "") -> None:
        pass

    def injected(self, params: Mapping[str, Json]) -> Mapping[str, Json]:
        return params


NO_SPAN: Final = NoSpan()


class Span(NoSpan):
    """A step of a request. Of one that is not sampled, only operations are made, for their durations."""

    __slots__ = ("_error", "_recorder", "_span", "_token")

    def __init__(self, recorder: Recorder, span: OtelSpan | None) -> None:
        self._recorder = recorder
        self._span = span
        self._token: Token[Span | None] | None = None
        self._error = ""

    def __enter__(self) -> Self:
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)
        if error is not None and not self._error:
            self._fail(error)
        if self._span is not None:
            self._span.end()

    @property
    def is_recording(self) -> bool:  # type: ignore[override]
        return self._span is not None

    @property
    def tells_bodies(self) -> bool:  # type: ignore[override]
        return self._span is not None and self._recorder.holds_bodies

    @property
    def trace_id(self) -> str:  # type: ignore[override]
        return "" if self._span is None else format(self._span.get_span_context().trace_id, "032x")

    @property
    def span_id(self) -> str:  # type: ignore[override]
        return "" if self._span is None else format(self._span.get_span_context().span_id, "016x")

    def set(self, name: str, value: Attribute) -> None:
        if self._span is not None:
            self._span.set_attribute(name, value)

    def failed(self, error_type: str, code: str = "") -> None:
        """Mark it failed: `error_type` by the conventions, `code` the hub's internal one.

        The message of an error may repeat redacted values, so a span has none.
        """
        self._error = error_type
        self.set("error.type", error_type)
        if code:
            self.set("mcphub.error.code", code)
        if self._span is not None:
            from opentelemetry.trace import StatusCode

            self._span.set_status(StatusCode.ERROR)

    def injected(self, params: Mapping[str, Json]) -> Mapping[str, Json]:
        """Return the params of a request that this span is the parent of (SEP-414)."""
        if self._span is None:
            return params
        context = self._span.get_span_context()
        meta = params.get("_meta")
        kept = {name: value for name, value in meta.items() if name != "tracestate"} if isinstance(meta, dict) else {}
        kept["traceparent"] = f"00-{self.trace_id}-{self.span_id}-{context.trace_flags:02x}"
        if state := context.trace_state.to_header():
            kept["tracestate"] = state
        return {**params, "_meta": kept}

    def is_of_tool(self, name: str) -> None:
        if self._span is not None:
            self._span.update_name(f"execute_tool {name}")
            self._span.set_attribute("gen_ai.tool.name", name)

    def child(self, name: str, kind: Kind, attributes: Mapping[str, Attribute]) -> Span | NoSpan:
        if self._span is None:
            return NO_SPAN
        return Span(self._recorder, self._recorder.begin(name, kind, attributes, under=self._span))

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, HubError):
            self.failed(error.code)
        else:
            self.failed(type(error).__name__)


class Operation(Span):
    """A request of MCP, served or sent: a span, and a duration among those of its kind."""

    __slots__ = ("_began", "_kind", "_labels", "_method")

    def __init__(
        self, recorder: Recorder, span: OtelSpan | None, kind: Kind, method: str, labels: dict[str, Attribute]
    ) -> None:
        super().__init__(recorder, span)
        self._kind: Kind = kind
        self._method = method
        self._labels = labels
        self._began = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._recorder.took(self._kind, time.monotonic() - self._began, self._labels)

    def is_of_tool(self, name: str) -> None:
        self._labels["gen_ai.tool.name"] = _bounded(name)
        if self._span is not None:
            self._span.update_name(f"{self._method} {name}")
            self._span.set_attribute("gen_ai.tool.name", name)

    def failed(self, error_type: str, code: str = "") -> None:
        super().failed(error_type, code)
        self._labels["error.type"] = error_type

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, HubError):
            super()._fail(error)
            return
        number = error.wire_code or getattr(error, "jsonrpc_code", INTERNAL_ERROR)
        self.failed(str(number), error.code)
        self._labels["rpc.response.status_code"] = str(number)
        self.set("rpc.response.status_code", str(number))


_NOTHING: Final[Mapping[str, Attribute]] = {}
_current: ContextVar[Span | None] = ContextVar("mcphub_span", default=None)
recorder: Recorder | None = None
"""None: nothing is recorded. The call path looks here before it asks for a span."""
_names: set[str] = set()


def record_with(made: Recorder | None) -> None:
    """Record with this from now on; None: nothing."""
    global recorder
    recorder = made
    _names.clear()


def is_on() -> bool:
    return recorder is not None


def current() -> Span | NoSpan:
    """Return the innermost current span."""
    return _current.get() or NO_SPAN


def span(name: str, attributes: Mapping[str, Attribute] = _NOTHING, kind: Kind = "internal") -> Span | NoSpan:
    """Return a step of the current work, to be entered with `with`; further attributes are `set` within."""
    under = _current.get()
    return NO_SPAN if under is None else under.child(name, kind, attributes)


def served(
    method: str, labels: Mapping[str, Attribute], *, parent: TraceContext | None, link: TraceContext | None
) -> Operation | NoSpan:
    """Return the span of a request that came. `labels` are the attributes that durations have, too; others are
    `set`.
    """
    if recorder is None:
        return NO_SPAN
    both: dict[str, Attribute] = {"mcp.method.name": method, **labels}
    found = recorder.begin(method, "server", both, under=parent, link=link)
    return Operation(recorder, found, "server", method, both)


def sent(
    method: str, target: str, attributes: Mapping[str, Attribute], params: Mapping[str, Json], *, is_tool: bool
) -> Operation | NoSpan:
    """Return the span of a request to an upstream. Without a current request, the parent is in its `_meta`: another
    process forwarded it.
    """
    if recorder is None:
        return NO_SPAN
    around = _current.get()
    under: OtelSpan | TraceContext | None = None
    labels: dict[str, Attribute] = {"mcp.method.name": method, **attributes}
    if around is None:
        under = sent_context(params.get("_meta"))
    elif around.is_recording:
        under = around._span
    found = None
    if is_tool:
        labels["gen_ai.operation.name"] = "execute_tool"
    if under is not None:
        found = recorder.begin(f"{method} {target}".rstrip(), "client", labels, under=under)
        if found is not None and target:
            found.set_attribute("gen_ai.tool.name" if is_tool else "gen_ai.prompt.name", target)
    if target:
        labels["gen_ai.tool.name" if is_tool else "gen_ai.prompt.name"] = _bounded(target)
    return Operation(recorder, found, "client", method, labels)


def of_call() -> Span | NoSpan:
    """Return the span of a call that no request of MCP brought: of a chat, a replay, the console."""
    if recorder is None or _current.get() is not None:
        return NO_SPAN
    attributes: dict[str, Attribute] = {"gen_ai.operation.name": "execute_tool"}
    return Span(recorder, recorder.begin("execute_tool", "internal", attributes, under=None))


def session_ended(kind: Kind, seconds: float, labels: Mapping[str, Attribute]) -> None:
    if recorder is not None:
        recorder.session_took(kind, max(0.0, seconds), labels)


def _bounded(name: str) -> str:
    """Return a name for grouping durations: after a number of distinct ones, the others share one."""
    if name in _names:
        return name
    if len(_names) >= _MOST_NAMES:
        return OTHER
    _names.add(name)
    return name
