"""The subject of a row that is not a tool call: it takes the place of the tool there, and in redaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from invocations.call_source import clip
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace

RESOURCES_READ, PROMPTS_GET, COMPLETE = "resources/read", "prompts/get", "completion/complete"
READS = (RESOURCES_READ, PROMPTS_GET, COMPLETE)
ELICIT, SAMPLE, LIST_ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
QUESTIONS = (ELICIT, SAMPLE, LIST_ROOTS)
"""Questions of a running call to its client."""
LONGEST_TARGET = 600
"""Characters: an entry of PostgreSQL's index has room for so many, whatever they are."""
_ARGUMENTS: Mapping[str, tuple[str, ...]] = {
    RESOURCES_READ: ("uri",),
    PROMPTS_GET: (),
    COMPLETE: ("ref", "type", "name", "uri", "argument"),
}
"""Members of the recorded arguments that every request of the method may have."""
_OF_KNOWN: Mapping[str, tuple[str, ...]] = {
    RESOURCES_READ: (),
    PROMPTS_GET: (),
    COMPLETE: ("value", "context", "arguments"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSubject:
    """A resource or prompt of the catalogue, an unknown name, or a question of a call."""

    method: str
    target: str
    """The URI or the template of a resource, the name of a prompt, as the catalogue has it; else as it came. Of a
    question the tool, resource or prompt that asks."""
    digest: str = ""
    connection: str | None = None
    definition: Mapping[str, Any] = field(default_factory=dict)
    """The Resource, ResourceTemplate or Prompt object: one object as long as it does not change."""
    variables: tuple[str, ...] = ()
    """Names of the arguments that it takes."""
    is_known: bool = True
    """The catalogue has it, and the caller may read it."""
    workspace: Workspace | None = None
    """To which it belongs."""
    asked_by: str | None = None
    """The invocation that asks its client."""
    name: ClassVar[str] = ""
    version: ClassVar[str] = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", clip(self.target, LONGEST_TARGET))

    @property
    def schema(self) -> dict[str, Json]:
        """Return the schema of its arguments, for redaction."""
        of_known = _OF_KNOWN.get(self.method, ()) + self.variables if self.is_known else ()
        names = _ARGUMENTS.get(self.method, ()) + of_known
        return {"properties": {name: {} for name in names}}
