"""A connection's prefix changes: what is named after it is renamed, and its former names become aliases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _t

from tools_catalog.models.aliases import McpAlias
from tools_catalog.models.content import McpPrompt
from tools_catalog.models.definitions import McpToolDefinition
from tools_catalog.models.names import prefixed
from tools_catalog.models.toolsets import McpToolset
from tools_catalog.models.upstream_tools import McpUpstreamTool

if TYPE_CHECKING:
    from tools_catalog.models.upstream import McpConnection

_NAMED = (McpUpstreamTool.Kind.TOOL, McpUpstreamTool.Kind.PROMPT)
_MODELS: Mapping[str, Any] = {"tool": McpToolDefinition, "prompt": McpPrompt}


@dataclass(frozen=True, slots=True, kw_only=True)
class Renaming:
    """Tools that have other names now, and by which prefixes they were and are named."""

    names: Mapping[str, str]
    former_prefix: str
    prefix: str
    reason: str

    def pattern(self, pattern: str) -> str:
        """Give a pattern of names as it reads after the renaming."""
        if self.former_prefix and pattern.startswith(self.former_prefix):
            return self.prefix + pattern[len(self.former_prefix) :]
        return pattern


FOLLOWERS: list[Callable[[Renaming], None]] = []
"""What other floors do when tools are renamed: their rules that name them follow. In the same transaction."""


def refusal_of(connection: McpConnection, former_prefix: str) -> str:
    """Say why the names cannot follow the connection's new prefix; empty where they can."""
    taken: dict[tuple[str, str], str] = {}
    for offer, name in _affected(connection, former_prefix):
        other = taken.setdefault((offer.kind, name), offer.upstream_name)
        if other is not offer.upstream_name:
            return _t("%(one)s and %(other)s would both be called %(name)s. Choose another prefix.") % {
                "one": repr(offer.upstream_name[:80]),
                "other": repr(other[:80]),
                "name": name,
            }
        served = offer.served
        if _MODELS[offer.kind].objects.filter(name=name).exclude(pk=served.pk if served else 0).exists():
            return _t("%(name)s is taken already. Choose another prefix.") % {"name": name}
        if served is not None and (refusal := McpAlias.objects.refusal_of(served, name)):
            return refusal
    return ""


def carry_out(connection: McpConnection, former_prefix: str) -> None:
    """Rename what is named after the prefix, in the transaction that changes it."""
    author, reason = connection.change_author, connection.change_reason or _t("The connection has another prefix")
    names: dict[str, str] = {}
    for offer, name in list(_affected(connection, former_prefix)):
        served, former = offer.served, offer.name
        offer.name = name
        save = offer.save_unrecorded if offer.decided_at is None else offer.save
        save(update_fields=["name"])
        if served is None or served.name != former:
            continue  # an operator gave it a name of its own
        served.name = name
        if isinstance(served, McpToolDefinition):
            served.change_author = author
        served.change_reason = reason
        served.save()
        if offer.kind == McpUpstreamTool.Kind.PROMPT:
            McpAlias.objects.leave(former, served)  # a tool does so itself
        else:
            names[former] = name
    renaming = Renaming(names=names, former_prefix=former_prefix, prefix=connection.prefix, reason=reason)
    _follow_in_toolsets(renaming)
    for follow in FOLLOWERS:
        follow(renaming)


def _affected(connection: McpConnection, former_prefix: str) -> list[tuple[McpUpstreamTool, str]]:
    """Give the offers that are named after the former prefix, each with its name after the present one."""
    offers = connection.tools.filter(kind__in=_NAMED).select_related("tool", "prompt").order_by("pk")
    return [
        (offer, name)
        for offer in offers
        if offer.name == prefixed(former_prefix, offer.upstream_name)
        and (name := prefixed(connection.prefix, offer.upstream_name)) != offer.name
    ]


def _follow_in_toolsets(renaming: Renaming) -> None:
    for row in McpToolset.objects.exclude(patterns="", read_patterns=""):
        patterns, read_patterns = _followed(row.patterns, renaming), _followed(row.read_patterns, renaming)
        if (patterns, read_patterns) != (row.patterns, row.read_patterns):
            row.patterns, row.read_patterns = patterns, read_patterns
            row.change_reason = renaming.reason
            row.save()


def _followed(patterns: str, renaming: Renaming) -> str:
    return " ".join(dict.fromkeys(renaming.pattern(each) for each in patterns.split()))
