"""A connection's prefix changes: names derived from it are changed, and its former names become aliases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _t

from sessions_app.history import guarding
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
        """Return a pattern of names as it reads after the renaming."""
        if self.former_prefix and pattern.startswith(self.former_prefix):
            return self.prefix + pattern[len(self.former_prefix) :]
        return pattern


SCOPED: list[Any] = []
"""Policies with a scope, which follow the tools that they name."""
FOLLOWERS: list[Callable[[Renaming], None]] = []
"""Reactions of other floors to renamed tools: their rules that name them follow. In the same transaction."""


def refusal_of(connection: McpConnection, former_prefix: str) -> str:
    """Return the reason if the names cannot follow the connection's new prefix; empty otherwise."""
    taken: dict[tuple[str, str], str] = {}
    for offer, name in _affected(connection, former_prefix):
        other = taken.setdefault((offer.kind, name), offer.upstream_name)
        if other is not offer.upstream_name:
            return _t("%(one)s and %(other)s would both be named %(name)s. Choose another prefix.") % {
                "one": repr(offer.upstream_name[:80]),
                "other": repr(other[:80]),
                "name": name,
            }
        served = offer.served
        if _MODELS[offer.kind].objects.filter(name=name).exclude(pk=served.pk if served else 0).exists():
            return _t("%(name)s is already taken. Choose another prefix.") % {"name": name}
        if served is not None and (refusal := McpAlias.objects.refusal_of(served, name)):
            return refusal
    return ""


def carry_out(connection: McpConnection, former_prefix: str) -> None:
    """Rename everything with the prefix, in the transaction that changes it."""
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
        with guarding.decided():  # the policies that name it follow below
            served.save()
        if offer.kind == McpUpstreamTool.Kind.PROMPT:
            McpAlias.objects.leave(former, served)  # a tool does so itself
        else:
            names[former] = name
    renaming = Renaming(names=names, former_prefix=former_prefix, prefix=connection.prefix, reason=reason)
    _follow_in_toolsets(renaming)
    for model in SCOPED:
        _follow_in_policies(model, renaming)
    for follow in FOLLOWERS:
        follow(renaming)


def _affected(connection: McpConnection, former_prefix: str) -> list[tuple[McpUpstreamTool, str]]:
    """Return the offers that are named after the former prefix, each with its name after the present one."""
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


def _follow_in_policies(model: Any, renaming: Renaming) -> None:
    """Add the present names to each policy that names former ones: it covers no less than before."""
    for row in model.objects.filter(applies_to="tool"):
        patterns = row.target.split()
        missed = [now for former, now in renaming.names.items() if _is_for(patterns, former)]
        for added in (*map(renaming.pattern, tuple(patterns)), *missed):
            if any(_is_for([added], name) and not _is_for(patterns, name) for name in missed):
                patterns.append(added)
        target = " ".join(patterns)
        if len(target) > model._meta.get_field("target").max_length:
            target = f"{row.target} {renaming.prefix}*"
        if target != row.target:
            row.target, row.change_reason = target, renaming.reason
            with guarding.decided():
                row.save()


def _is_for(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _followed(patterns: str, renaming: Renaming) -> str:
    return " ".join(dict.fromkeys(renaming.pattern(each) for each in patterns.split()))
