"""Every failure of a request, with the facts that each wire needs.

    HubError                      code, a public sentence, safe details
    ├─ ProtocolError              the caller broke the rules -> JSON-RPC error
    │    ParseError  InvalidRequest  AlreadyInitialized  MethodNotFound  InvalidParams  ToolNotFound  ToolDisabled
    │    ResourceNotFound  PromptNotFound
    │    HeaderMismatch  MissingClientCapability  UnsupportedProtocolVersion  UrlElicitationRequired
    │    SessionNotFound  DuplicateRequest
    ├─ Refused                    a refused request -> HTTP status
    │    Unauthenticated  Forbidden  MisdirectedRequest  MethodNotAllowed  NotAcceptable
    │    BodyTimeout  PayloadTooLarge  UnsupportedMediaType  RateLimited  QuotaReached
    │    ServerBusy  AuditUnavailable  ServerError
    └─ ToolFailure                a model may act on it -> result with isError
         ArgumentsInvalid  PolicyDenied  WritesStopped  GuardrailRefused  GuardrailFailed
         ToolTimeout  Cancelled  Interrupted  ConnectionFailed
         EgressRefused  TransportError  UpstreamError  ExecutionError  AskFailed  ApprovalDenied
         ResultInvalid

An error carries an internal `code` from the closed list `INTERNAL_CODES`; `McpErrorMapping` turns that into the
JSON-RPC code and the words. `str(error)` is safe to send; confidential details go into `__cause__` and the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CLIENT_CAPABILITY = -32021
UNSUPPORTED_PROTOCOL_VERSION = -32022
URL_ELICITATION_REQUIRED = -32042

OWN_CODES = range(-31099, -30999)
"""Our block, outside the range that JSON-RPC and MCP keep for themselves (MCP 2026-07-28, error codes)."""

STANDARD_CODES = frozenset({PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL_ERROR})
PROTOCOL_CODES = frozenset(
    {HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION, URL_ELICITATION_REQUIRED}
)

HTTP_STATUS = MappingProxyType(
    {
        PARSE_ERROR: 400,
        INVALID_REQUEST: 400,
        METHOD_NOT_FOUND: 404,
        INVALID_PARAMS: 400,
        INTERNAL_ERROR: 500,
        HEADER_MISMATCH: 400,
        MISSING_CLIENT_CAPABILITY: 400,
        UNSUPPORTED_PROTOCOL_VERSION: 400,
        URL_ELICITATION_REQUIRED: 400,
    }
)
"""HTTP status of a JSON-RPC error on the stateless path (MCP 2026-07-28, Streamable HTTP). Handshake
sessions answer 200 once a request was accepted. Nobody else writes a status for an MCP error."""


class HubError(Exception):
    """A failure with an internal code. `sentence` states the problem and the next step for the caller."""

    code: ClassVar[str] = "server_error"
    sentence: ClassVar[str] = "The hub failed to answer. Try again; tell the operator if it goes on."
    http_status: ClassVar[int | None] = None
    wire_code: int | None = None
    """The JSON-RPC code where a revision prescribes another than the error map."""

    def __init__(self, sentence: str | None = None, /, **details: Json) -> None:
        self.message = sentence or self.sentence
        self.details = details
        self.retry_after_seconds: float | None = None
        self.was_not_made = False
        """Nothing was done, so it may be tried again whatever the tool does."""
        self.request_id: str | int | None = None
        self.invocation_id = ""
        """The audit row of this failure, if there is one."""
        self._own_id = ""
        self.noted: object = None
        """Notes of the call's stages for its record."""
        super().__init__(self.message)

    @property
    def correlation_id(self) -> str:
        """Sent to the caller and logged, too: the ID of the row, or one of the error's own."""
        if not self.invocation_id and not self._own_id:
            self._own_id = uuid.uuid4().hex
        return self.invocation_id or self._own_id

    def parted(self) -> Self:
        """Let go of the frames that it came through, and give the error.

        Whoever keeps an error in a frame that it was raised in makes a ring of the two, and all that those frames
        hold, such as a request's body, stays until the garbage collector comes, which in a hub is rarely.
        """
        self.__cause__ = self.__context__ = self.__traceback__ = None
        return self

    @property
    def spec_data(self) -> dict[str, Json]:
        """Members that the specification puts at the top of `error.data` for this error."""
        return {}


class ProtocolError(HubError):
    """The caller broke the rules of JSON-RPC or MCP; answered with a JSON-RPC error."""

    code = "invalid_request"
    jsonrpc_code: ClassVar[int] = INVALID_REQUEST
    request_id: str | int | None = None
    """The id of the request that failed, where whoever raised the error could read it."""


class ParseError(ProtocolError):
    code = "parse_error"
    jsonrpc_code = PARSE_ERROR
    sentence = "The body is not valid JSON. Send one UTF-8 JSON-RPC 2.0 object."

    def __init__(self, reason: str | None = None, advice: str = "", /, **details: Json) -> None:
        super().__init__(f"{reason} {advice}" if reason and advice else reason, **details)
        self.reason = reason or self.sentence
        """Without the advice, which only the sender of the body can follow."""


class InvalidRequest(ProtocolError):
    code = "invalid_request"
    jsonrpc_code = INVALID_REQUEST
    sentence = "The body is not a JSON-RPC 2.0 message."


class AlreadyInitialized(InvalidRequest):
    sentence = "The session is initialized already. For another one send initialize without a session id."


class MethodNotFound(ProtocolError):
    code = "method_not_found"
    jsonrpc_code = METHOD_NOT_FOUND
    sentence = "There is no such method here."

    @classmethod
    def named(cls, method: str, known: Iterable[str] = ()) -> MethodNotFound:
        """Return the error of a method that is not among those `known`; it names the one that was likely meant."""
        shown = method[:100]
        meant = get_close_matches(shown, known, n=1, cutoff=0.8)
        if meant:
            return cls(
                f"There is no method {shown!r} here. Send {meant[0]}, if that is meant.", method=shown, meant=meant[0]
            )
        return cls(f"There is no method {shown!r} here. The server's capabilities tell what there is.", method=shown)


class InvalidParams(ProtocolError):
    code = "invalid_params"
    jsonrpc_code = INVALID_PARAMS
    sentence = "The parameters of the request are not valid."


class ToolNotFound(InvalidParams):
    """Also the answer for a tool that is hidden from the caller: both are alike."""

    code = "tool_not_found"
    sentence = "There is no tool of that name. Ask tools/list for the names."


class ToolDisabled(InvalidParams):
    code = "tool_disabled"
    sentence = "The tool is switched off. Ask the hub's operator to enable it."


class ResourceNotFound(InvalidParams):
    """Also the answer for a resource that is hidden or disabled. `wire_code` is the revision's number."""

    code = "resource_not_found"
    sentence = "There is no such resource. Ask resources/list for the URIs."

    def __init__(self, uri: str, wire_code: int) -> None:
        super().__init__(None, uri=uri)
        self.wire_code = wire_code

    @property
    def spec_data(self) -> dict[str, Json]:
        return {"uri": self.details["uri"]}


class PromptNotFound(InvalidParams):
    """Also the answer for a prompt that is hidden or disabled."""

    code = "prompt_not_found"
    sentence = "There is no prompt of that name. Ask prompts/list for the names."


class HeaderMismatch(ProtocolError):
    code = "header_mismatch"
    jsonrpc_code = HEADER_MISMATCH
    sentence = "A header and the body disagree."


class MissingClientCapability(ProtocolError):
    """`required` is shaped like ClientCapabilities, e.g. `{"sampling": {}}`."""

    code = "missing_client_capability"
    jsonrpc_code = MISSING_CLIENT_CAPABILITY
    sentence = "The request needs a client capability that it does not declare."

    def __init__(self, required: dict[str, Json], sentence: str | None = None) -> None:
        super().__init__(sentence, requiredCapabilities=required)

    @property
    def spec_data(self) -> dict[str, Json]:
        return {"requiredCapabilities": self.details["requiredCapabilities"]}


class UnsupportedProtocolVersion(ProtocolError):
    code = "unsupported_protocol_version"
    jsonrpc_code = UNSUPPORTED_PROTOCOL_VERSION
    sentence = "The hub does not serve that protocol version. Use one of `supported`."

    def __init__(self, requested: str, supported: tuple[str, ...]) -> None:
        super().__init__(None, supported=list(supported), requested=requested)

    @property
    def spec_data(self) -> dict[str, Json]:
        return dict(self.details)


class UrlElicitationRequired(ProtocolError):
    """A person has to open addresses first (MCP 2025-11-25, Elicitation; no other revision has it).

    `elicitations` are params of `elicitation/create` in URL mode, each with its id.
    """

    code = "url_elicitation_required"
    jsonrpc_code = URL_ELICITATION_REQUIRED
    sentence = "A person has to open an address first. Show it, and send the request again when it is done."

    def __init__(self, elicitations: list[dict[str, Json]]) -> None:
        super().__init__(None, elicitations=elicitations)

    @property
    def spec_data(self) -> dict[str, Json]:
        return {"elicitations": self.details["elicitations"]}


class SessionNotFound(ProtocolError):
    """Unknown, ended and foreign sessions are answered alike, so that an ID reveals nothing to a stranger."""

    code = "session_not_found"
    sentence = "There is no such session, or it has ended. Send initialize again."
    http_status = 404


class DuplicateRequest(ProtocolError):
    code = "duplicate_request"
    sentence = "This request id or idempotency key was used for another request. Use a new one."


class Refused(HubError):
    """A refused request: an HTTP status with a JSON-RPC body."""

    code = "forbidden"
    http_status: ClassVar[int] = 403


class Unauthenticated(Refused):
    code = "unauthorized"
    sentence = "A valid key is needed. Send it as `Authorization: Bearer <key>`."
    http_status = 401


class Forbidden(Refused):
    code = "forbidden"
    sentence = "The key does not allow this."
    http_status = 403


class MisdirectedRequest(Refused):
    code = "host_refused"
    sentence = "The hub does not answer under this Host. Add it to MCPHUB_ALLOWED_HOSTS."
    http_status = 421


class MethodNotAllowed(Refused):
    code = "method_not_allowed"
    sentence = "The HTTP method is not served here."
    http_status = 405


class NotAcceptable(Refused):
    code = "not_acceptable"
    sentence = "Accept must name both application/json and text/event-stream."
    http_status = 406


class BodyTimeout(Refused):
    code = "body_timeout"
    sentence = "The body did not arrive in time. Send it at once."
    http_status = 408


class PayloadTooLarge(Refused):
    code = "payload_too_large"
    sentence = "The body is larger than the hub accepts."
    http_status = 413


class UnsupportedMediaType(Refused):
    code = "unsupported_media_type"
    sentence = "Content-Type must be application/json."
    http_status = 415


class RateLimited(Refused):
    code = "rate_limited"
    sentence = "The limit of calls is reached. Wait and try again."
    http_status = 429


class QuotaReached(Refused):
    """`quota` names the exhausted one, `resetsAt` the time of its reset."""

    code = "quota_reached"
    sentence = "A quota is used up. Wait until it is released."
    http_status = 429


class ServerBusy(Refused):
    code = "server_busy"
    sentence = "The hub is at its limit. Wait and try again."
    http_status = 503


class AuditUnavailable(Refused):
    """Before the call: nothing ran. After it: the outcome is unknown, `invocationId` names the evidence."""

    code = "audit_unavailable"
    sentence = "The call could not be recorded, so it was not made. Try again."
    http_status = 503


class ServerError(Refused):
    code = "server_error"
    sentence = HubError.sentence
    http_status = 500


class ToolFailure(HubError):
    """The call was made, or refused, for a reason that a model can act on: a result with `isError`."""

    code = "execution_error"
    sentence = "The tool failed."
    fails_task = False
    """Of a call that is a task: it fails the task, as an error of the protocol does."""


class ArgumentsInvalid(ToolFailure):
    code = "invalid_arguments"
    sentence = "The arguments do not match the tool's input schema."


class PolicyDenied(ToolFailure):
    """`rule` and its version are recorded, not sent: the caller receives the rule's own message."""

    code = "policy_denied"
    sentence = "A rule of this hub denies the call."


class WritesStopped(ToolFailure):
    """Operators stopped all tools that are not read-only."""

    code = "writes_stopped"
    sentence = "Writes are stopped on this hub. Nothing was changed; read-only tools still work."


class GuardrailRefused(ToolFailure):
    """For arguments, nothing ran; for a result, the tool ran, and its result is withheld."""

    code = "guardrail_refused"
    sentence = "A guardrail of this hub refuses the call."


class GuardrailFailed(ToolFailure):
    """A guardrail that fails closed could not look."""

    code = "guardrail_failed"
    sentence = "A guardrail of this hub could not look at the call, so it is refused. Try again later."


class ToolTimeout(ToolFailure):
    code = "timeout"
    sentence = "The tool did not finish in time."


class Cancelled(ToolFailure):
    code = "cancelled"
    sentence = "The call was cancelled."


class Interrupted(ToolFailure):
    code = "interrupted"
    sentence = "The hub stopped before the outcome of the call was known."


class ConnectionFailed(ToolFailure):
    code = "connection_failed"
    sentence = "The service behind the tool could not be reached."


class EgressRefused(ToolFailure):
    """Asking again changes nothing: an operator must allow the address."""

    code = "egress_refused"
    sentence = "The hub does not send requests there."


class TransportError(ToolFailure):
    code = "transport_error"
    sentence = "The connection to the service behind the tool broke."


class UpstreamError(ToolFailure):
    code = "upstream_error"
    sentence = "The service behind the tool answered with an error."


class ExecutionError(ToolFailure):
    code = "execution_error"
    sentence = "The tool failed."


class AskFailed(ExecutionError):
    """The tool asked its client, who lacks the capability, refused, or gave no usable answer."""

    sentence = "The tool asks its client something, and got no answer."


class ApprovalDenied(ExecutionError):
    """A person denied the call, or the approval no longer holds."""

    sentence = "The call was not approved, so the tool was not called."


class ResultInvalid(ToolFailure):
    code = "result_invalid"
    sentence = "The tool's result does not match its output schema."


def _tree(root: type[HubError]) -> list[type[HubError]]:
    return [root] + [leaf for child in root.__subclasses__() for leaf in _tree(child)]


INTERNAL_CODES = frozenset(kind.code for kind in _tree(HubError))
"""The closed list. An unmapped code falls back to `server_error`."""

PROVIDER_CODES = frozenset({"provider_unavailable", "authentication_failed", "quota_exceeded", "session_busy"})
"""Codes that only model requests end with. No call does, so there is no class here; `McpErrorMapping` covers them,
too.
"""
MAPPED_CODES = INTERNAL_CODES | PROVIDER_CODES
