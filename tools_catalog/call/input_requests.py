"""Input requests to the client of a call, and its responses: forms, addresses to open, samplings, roots.

Values without I/O. How a request reaches the client, and when the response is there, is decided far above.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel

from sessions_app.protocol import schemas, shapes
from sessions_app.protocol.revisions import Revision
from tools_catalog.call.base import Json
from tools_catalog.call.elicitation_schema import flat_schema


class InvalidInputResponse(ValueError):
    """The client's response does not fit the request. The sentence is the reason."""


@dataclass(frozen=True, slots=True)
class Elicited:
    """The person's answer to a form or an address. `content` is empty unless `action` is `accept`."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Json] = field(default_factory=dict)

    @property
    def accepted(self) -> bool:
        return self.action == "accept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """The output of the client's model. `content` holds content blocks of MCP, also where the client sent one alone."""

    content: list[dict[str, Json]]
    model: str
    role: str = "assistant"
    stop_reason: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or file that the client lets servers know of."""

    uri: str
    name: str | None = None


class InputRequest:
    """Something to ask of the client (MCP 2026-07-28, `inputRequests`); see the subclasses."""

    __slots__ = ()
    method: ClassVar[str]
    kind: ClassVar[str]
    """The stem of the key that a request gets when the tool chooses none."""

    @property
    def required(self) -> dict[str, Json]:
        """The client capabilities that it needs, shaped like ClientCapabilities."""
        raise NotImplementedError

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        """Return whether a client with these capabilities, in this revision, may be asked."""
        raise NotImplementedError

    def params(self, revision: Revision) -> dict[str, Json]:
        """The parameters of the request, as the revision writes them."""
        raise NotImplementedError

    def read(self, result: Mapping[str, Json]) -> Any:
        """Read the client's result; raise `InvalidInputResponse` where it does not fit the request."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, init=False)
class Form(InputRequest):
    """A form for the person: `elicitation/create` in form mode. Never ask for a secret this way.

    `schema` is a JSON Schema or a pydantic model: an object of flat properties (strings, numbers, booleans, enums,
    lists of enums). Raises ValueError for one that MCP's forms cannot show.
    """

    method = "elicitation/create"
    kind = "elicitation"
    message: str
    schema: dict[str, Json]
    validator: schemas.Validator = field(compare=False, repr=False)

    def __init__(self, message: str, schema: Mapping[str, Json] | type[BaseModel]) -> None:
        flat = flat_schema(schema)
        object.__setattr__(self, "message", message)
        object.__setattr__(self, "schema", flat)
        object.__setattr__(self, "validator", schemas.compile(flat))

    @property
    def required(self) -> dict[str, Json]:
        return {"elicitation": {"form": {}}}

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        declared = capabilities.get("elicitation")
        # An empty object, as clients before 2025-11-25 send it, means forms.
        is_declared = isinstance(declared, dict) and ("form" in declared or "url" not in declared)
        return is_declared and _is_known(self, revision)

    def params(self, revision: Revision) -> dict[str, Json]:
        form = {"mode": "form", "message": self.message, "requestedSchema": self.schema}
        return shapes.elicitation_for(revision, form)

    def read(self, result: Mapping[str, Json]) -> Elicited:
        action = _action(result)
        if action != "accept":
            return Elicited(action)
        content = result.get("content", {})
        if not isinstance(content, dict):
            raise InvalidInputResponse("content must be an object.")
        known = {name: value for name, value in content.items() if name in self.schema["properties"]}
        if not self.validator.is_valid(known):
            raise InvalidInputResponse(self.validator.explain(known).sentence)
        return Elicited(action, known)


@dataclass(frozen=True, slots=True)
class Url(InputRequest):
    """An address for the person to open: `elicitation/create` in URL mode.

    `accept` means that the person agreed to open it, not that anything happened there. The server at the address must
    verify that the person who opens it is the one who called. Raises ValueError for no http(s) address.
    """

    method = "elicitation/create"
    kind = "elicitation"
    message: str
    url: str
    elicitation_id: str = field(default_factory=lambda: secrets.token_urlsafe(16), compare=False)
    """Names the request in `notifications/elicitation/complete` of 2025-11-25. For an id of `context.elicitation_id()`
    the client can be notified later; see `addresses`."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("A question needs an http or https address with a host and without a password.")

    @property
    def required(self) -> dict[str, Json]:
        return {"elicitation": {"url": {}}}

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        declared = capabilities.get("elicitation")
        return isinstance(declared, dict) and "url" in declared and _is_known(self, revision)

    def params(self, revision: Revision) -> dict[str, Json]:
        params = {"mode": "url", "message": self.message, "url": self.url, "elicitationId": self.elicitation_id}
        return shapes.elicitation_for(revision, params)

    def read(self, result: Mapping[str, Json]) -> Elicited:
        return Elicited(_action(result))


@dataclass(frozen=True, slots=True, init=False)
class Sample(InputRequest):
    """A request to the client's model: `sampling/createMessage`. `messages` are SamplingMessages of MCP, or one text.

    `options` are further members of the request: `systemPrompt`, `temperature`, `stopSequences`, `modelPreferences`,
    `metadata`, and from 2025-11-25 on `tools` and `toolChoice`.
    """

    method = "sampling/createMessage"
    kind = "sampling"
    messages: tuple[dict[str, Json], ...]
    max_tokens: int
    options: Mapping[str, Json]

    def __init__(self, messages: str | Iterable[dict[str, Json]], *, max_tokens: int = 1000, **options: Json) -> None:
        if isinstance(messages, str):
            messages = [{"role": "user", "content": {"type": "text", "text": messages}}]
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
            raise ValueError("max_tokens must be a whole number above 0.")
        object.__setattr__(self, "messages", tuple(messages))
        object.__setattr__(self, "max_tokens", max_tokens)
        object.__setattr__(self, "options", options)
        if not self.messages:
            raise ValueError("A sampling needs at least one message.")

    @property
    def required(self) -> dict[str, Json]:
        return {"sampling": {"tools": {}} if "tools" in self.options else {}}

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        declared = capabilities.get("sampling")
        if not isinstance(declared, dict):
            return False
        return _is_known(self, revision) and ("tools" not in self.options or "tools" in declared)

    def params(self, revision: Revision) -> dict[str, Json]:
        params = {"messages": list(self.messages), "maxTokens": self.max_tokens, **self.options}
        return shapes.sampling_for(revision, params)

    def read(self, result: Mapping[str, Json]) -> Sampled:
        content, model, role = result.get("content"), result.get("model"), result.get("role")
        blocks: list[Any] = content if isinstance(content, list) else [content]
        if role not in ("assistant", "user") or not isinstance(model, str):
            raise InvalidInputResponse("A sampling's answer needs role and model.")
        if not all(map(_is_block, blocks)):
            raise InvalidInputResponse("content must be a content block with a type, or a list of them.")
        reason = result.get("stopReason")
        return Sampled(content=blocks, model=model, role=role, stop_reason=reason if isinstance(reason, str) else None)


@dataclass(frozen=True, slots=True)
class Roots(InputRequest):
    """Which folders the client works in: `roots/list`."""

    method = "roots/list"
    kind = "roots"

    @property
    def required(self) -> dict[str, Json]:
        return {"roots": {}}

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        return isinstance(capabilities.get("roots"), dict)

    def params(self, revision: Revision) -> dict[str, Json]:
        return {}

    def read(self, result: Mapping[str, Json]) -> list[Root]:
        listed = result.get("roots")
        if not isinstance(listed, list):
            raise InvalidInputResponse("roots must be a list.")
        return [_root(each) for each in listed]


@dataclass(frozen=True, slots=True)
class Relayed(InputRequest):
    """A request that an upstream sends through the hub. Its response is the result as it came."""

    method: str  # type: ignore[misc]  # of the one kind of request whose method is not the class's
    given: Mapping[str, Json]
    kind = "relayed"

    @property
    def required(self) -> dict[str, Json]:
        name = self.method.partition("/")[0]
        mode: dict[str, Json] = {"url" if self._is_url else "form": {}} if name == "elicitation" else {}
        return {name: mode}

    @property
    def _is_url(self) -> bool:
        return self.given.get("mode") == "url"

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        declared = capabilities.get(self.method.partition("/")[0])
        if not isinstance(declared, dict):
            return False
        if self.method != "elicitation/create":
            return _is_known(self, revision)
        if self._is_url:
            return "url" in declared and _is_known(self, revision)
        return ("form" in declared or "url" not in declared) and _is_known(self, revision)

    def params(self, revision: Revision) -> dict[str, Json]:
        if self.method == "elicitation/create":
            return shapes.elicitation_for(revision, self.given)
        meta = {"_meta": self.given["_meta"]} if "_meta" in self.given else {}
        if self.method != "sampling/createMessage":
            return meta
        return {**shapes.sampling_for(revision, self.given), **meta}

    def read(self, result: Mapping[str, Json]) -> Mapping[str, Json]:
        if self.method == "elicitation/create":
            _action(result)
        return result


@dataclass(frozen=True, slots=True)
class Inspected(InputRequest):
    """A request with the parameters that guardrails leave. Its response is read as that of the request."""

    method: str  # type: ignore[misc]  # as Relayed's
    request: InputRequest
    given: dict[str, Json]
    kind = "inspected"

    @property
    def required(self) -> dict[str, Json]:
        return self.request.required

    def is_possible(self, capabilities: Mapping[str, Json], revision: Revision) -> bool:
        return self.request.is_possible(capabilities, revision)

    def params(self, revision: Revision) -> dict[str, Json]:
        return self.given

    def read(self, result: Mapping[str, Json]) -> Any:
        return self.request.read(result)


def _is_known(request: InputRequest, revision: Revision) -> bool:
    try:
        request.params(revision)
    except ValueError:
        return False
    return True


def _action(result: Mapping[str, Json]) -> Literal["accept", "decline", "cancel"]:
    action: Any = result.get("action")
    if action in ("accept", "decline", "cancel"):
        chosen: Literal["accept", "decline", "cancel"] = action
        return chosen
    raise InvalidInputResponse("action must be accept, decline or cancel.")


def _is_block(block: Json) -> bool:
    if not isinstance(block, dict) or not isinstance(block.get("type"), str):
        return False
    return block["type"] != "text" or isinstance(block.get("text"), str)


def _root(given: Json) -> Root:
    if not isinstance(given, dict) or not isinstance(given.get("uri"), str) or not given["uri"].startswith("file://"):
        raise InvalidInputResponse("Each root needs a uri that begins with file://.")
    name = given.get("name")
    return Root(given["uri"], name if isinstance(name, str) else None)
