"""The catalogue as calls see it: one immutable snapshot a process, replaced whole when the database moves.

Nothing here touches the database but `Catalog.load`. Lists are bytes made once per revision and audience, so
the cost of a call or a list does not grow with the catalogue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sessions_app.protocol import envelope, json, revisions, schemas
from sessions_app.protocol.errors import ExecutionError, ToolDisabled, ToolNotFound
from tools_catalog import hosts
from tools_catalog.backends import base
from tools_catalog.backends.http import HttpBackend
from tools_catalog.backends.python import PythonBackend

logger = logging.getLogger(__name__)


class Audience(Protocol):
    """What of a caller decides which tools it sees."""

    @property
    def groups(self) -> frozenset[int]: ...
    @property
    def sees_everything(self) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, ready to be listed and called."""

    name: str
    version: str
    digest: str
    enabled: bool
    groups: frozenset[int]
    read_only: bool
    retry_safe: bool
    timeout_seconds: float
    calls_per_minute: int | None
    definition: dict[str, Any]
    """The Tool object in its newest form; older revisions are made from it."""
    arguments: schemas.Validator
    result: schemas.Validator | None
    param_headers: tuple[envelope.ParamHeader, ...]
    backend: base.Backend

    def visible_to(self, caller: Audience) -> bool:
        return not self.groups or caller.sees_everything or not self.groups.isdisjoint(caller.groups)


@dataclass(frozen=True, slots=True)
class _Compiled:
    definition: dict[str, Any]
    arguments: schemas.Validator
    result: schemas.Validator | None
    param_headers: tuple[envelope.ParamHeader, ...]
    backend: base.Backend


class Catalog:
    """All tools at one moment."""

    def __init__(self, tools: Iterable[Tool] = (), compiled: Mapping[str, _Compiled] | None = None) -> None:
        self.tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self._compiled = dict(compiled or {})
        self._restricting = frozenset().union(*(tool.groups for tool in self.tools.values()))
        self._lists: dict[Any, bytes] = {}

    def find(self, name: str, caller: Audience) -> Tool:
        """Give the tool; raise ToolNotFound (hidden ones too) or ToolDisabled."""
        tool = self.tools.get(name)
        if tool is None or (tool.groups and not tool.visible_to(caller)):
            raise ToolNotFound(
                f"There is no tool named {json.dumps(name[:100]).decode()}. Ask tools/list for the names.",
                tool=name[:100],
            )
        if not tool.enabled:
            raise ToolDisabled(
                f"The tool {name} is switched off. Ask the hub's operator to enable it, or choose another.", tool=name
            )
        return tool

    @property
    def is_public(self) -> bool:
        """Whether every caller sees the same list, so that caches may share it."""
        return not self._restricting

    def listing(self, caller: Audience, version: str, tail: bytes = b"") -> bytes:
        """Give the result of tools/list as bytes, in the form of the protocol `version`.

        `tail` holds further members of the result, already encoded and beginning with a comma.
        """
        audience: Any = "all" if caller.sees_everything else caller.groups & self._restricting
        made = self._lists.get((version, audience, tail))
        if made is None:
            revision = revisions.revision(version)
            shown = [
                json.dumps(revisions.tool_for(revision, tool.definition))
                for tool in self.tools.values()
                if tool.enabled and tool.visible_to(caller)
            ]
            made = b'{"tools":[' + b",".join(shown) + b"]" + tail + b"}"
            self._lists[version, audience, tail] = made
        return made

    @classmethod
    def load(cls, before: Catalog | None = None) -> Catalog:
        """Read the catalogue; what did not change since `before` is not compiled again.

        A tool that cannot be compiled is left out and logged: one bad row never empties the list.
        """
        from tools_catalog.models import McpToolDefinition, Secret

        # Replaced whole: a call that looks for a secret meanwhile finds the old ones or the new ones.
        global _vault
        _vault = {secret.name: secret for secret in Secret.objects.all()}
        known = before._compiled if before is not None else {}
        compiled: dict[str, _Compiled] = {}
        tools = []
        for row in _readable(McpToolDefinition.objects.prefetch_related("groups").order_by("name")):
            # Of what is served, not of the version that should be: an edit behind the model's back is seen
            # and recorded as what it is.
            digest = row.digest()
            try:
                parts = known.get(digest) or _compile(row)
            except Exception:
                logger.exception("The tool %s cannot be served and is left out", row.name)
                continue
            compiled[digest] = parts
            tools.append(
                Tool(
                    name=row.name, version=row.version, digest=digest, enabled=row.enabled,
                    groups=frozenset(group.pk for group in row.groups.all()), read_only=row.read_only,
                    retry_safe=row.retry_safe, timeout_seconds=row.timeout_seconds,
                    calls_per_minute=row.calls_per_minute, definition=parts.definition, arguments=parts.arguments,
                    result=parts.result, param_headers=parts.param_headers, backend=parts.backend,
                )
            )  # fmt: skip
        return cls(tools, compiled)


def _readable(rows: Any) -> list[Any]:
    """Give all rows, or those that can be read where the text of one is no JSON."""
    try:
        return list(rows)
    except ValueError:
        found = []
        for key in list(rows.values_list("pk", flat=True)):
            try:
                found.append(rows.get(pk=key))
            except ValueError:
                logger.exception("The tool with id %s cannot be read and is left out", key)
        return found


def _compile(row: Any) -> _Compiled:
    definition: dict[str, Any] = {"name": row.name}
    if row.title:
        definition["title"] = row.title
    definition["description"] = row.description
    definition["inputSchema"] = row.input_schema
    if row.output_schema:
        definition["outputSchema"] = row.output_schema
    definition["annotations"] = {**({"title": row.title} if row.title else {}), **row.annotations}
    if row.meta:
        definition["_meta"] = row.meta
    backend: base.Backend
    if row.backend == "python":
        backend = PythonBackend(row.configuration["function"])
    else:
        backend = HttpBackend(row.configuration, secret=_secret)
    return _Compiled(
        definition,
        schemas.compile(row.input_schema),
        schemas.compile(row.output_schema) if row.output_schema else None,
        envelope.param_headers(row.input_schema),
        backend,
    )


_vault: dict[str, Any] = {}
"""Secret rows by name, still encrypted, as of the newest snapshot."""


def _secret(name: str, host: str) -> str:
    if name not in _vault:
        raise ExecutionError(f"The secret {name} that the tool needs does not exist. Tell the hub's operator.")
    if not hosts.covers(_vault[name].hosts, host):
        raise ExecutionError(
            f"The secret {name} is not for the host {host}, so nothing was sent. Tell the hub's operator.",
            secret=name, host=host,
        )  # fmt: skip
    value: str = _vault[name].value()
    return value
