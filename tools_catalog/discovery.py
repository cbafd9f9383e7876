"""What upstreams offer against what was approved: listings become proposals, approvals become tools.

A definition is served only as somebody approved it, or as the connection's policy lets it through. What an
operator then writes differently at the tool is an override: it is told by comparing the tool with the approved
original, stays when the original changes, and is stored nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app.protocol import envelope, json, schemas
from tools_catalog.models import Backend, McpConnection, McpToolDefinition, McpUpstreamTool
from tools_catalog.models_content import NAME
from tools_catalog.upstream.listing import Listed, storable

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.-]")
_BY_POLICY = "policy of the connection"


class ApprovalRefused(Exception):
    """A definition cannot be served; the sentence says why and what to do."""


def reconcile(connection_id: int, listed: Mapping[str, Listed]) -> None:
    """Compare a listing with what is known of the connection, take it down, and let through what its policy lets.

    May be called by several processes at once with the same listing: the second finds nothing to do.
    """
    with transaction.atomic():
        connection = McpConnection.objects.select_for_update().filter(pk=connection_id).first()
        if connection is None:
            return
        known = {row.upstream_name: row for row in connection.tools.select_related("tool")}
        gone = [row for name, row in known.items() if name not in listed]
        for row in gone:
            if not row.is_gone:
                row.is_gone = True
                row.save(update_fields=["is_gone"])
        for name, tool in listed.items():
            current = known.get(name) or _new(connection, tool, gone)
            if current.pk is None or current.seen_digest != tool.digest or current.is_gone:
                current.see(tool)
                current.refusal = (tool.refusal or refusal_of(current))[:1000]
                current.save()
            if _passes(connection, current):
                try:
                    approve(current, author=_BY_POLICY, reason=_t("The connection's policy"))
                except ApprovalRefused as error:
                    McpUpstreamTool.objects.filter(pk=current.pk).update(refusal=str(error)[:1000])
        if connection.discovered_at is None:
            # Not save(): the moment is no change of the connection.
            McpConnection.objects.filter(pk=connection.pk).update(discovered_at=timezone.now())


def approve(row: McpUpstreamTool, *, author: Any, reason: str = "") -> McpToolDefinition:
    """Serve what the upstream offers now. What an operator wrote differently at the tool is kept.

    Raises ApprovalRefused.
    """
    with transaction.atomic():
        row = McpUpstreamTool.objects.select_for_update(of=("self",)).select_related("connection").get(pk=row.pk)
        if row.is_gone:
            raise ApprovalRefused(_t("The upstream no longer offers it."))
        if refusal := refusal_of(row):
            raise ApprovalRefused(refusal)
        before = columns(row, row.approved) if row.approved_digest else {}
        wanted = columns(row, row.seen)
        is_new = row.tool is None
        tool = row.tool or McpToolDefinition(backend=Backend.UPSTREAM)
        for column, value in wanted.items():
            if is_new or _same(getattr(tool, column), before.get(column)):
                setattr(tool, column, value)
        if tool.read_only:
            tool.destructive = False  # an operator's mark outweighs the upstream's hint
        tool.configuration = {
            "connection": row.connection.slug, "tool": row.upstream_name, "digest": row.seen_digest,
            "schema_digest": row.seen_schema_digest,
            "read_only_hint": _hints(row.seen).get("readOnlyHint") is True,
        }  # fmt: skip
        row.approved, row.approved_digest = row.seen, row.seen_digest
        row.approved_schema_digest = row.seen_schema_digest
        row.rejected_digest = row.refusal = row.renamed_from = ""
        row.decided_by, row.decided_at = str(author)[:150], timezone.now()
        row.save()
        tool.change_author, tool.change_reason = author, reason
        tool._change_reason = reason[:100] or None
        try:
            tool.full_clean()
        except ValidationError as error:
            words = [f"{field}: {' '.join(texts)}" for field, texts in error.message_dict.items()]
            raise ApprovalRefused(" ".join(words)) from error
        tool.save()
        if is_new:
            tool.groups.set(row.connection.groups.all())
            row.tool = tool
            row.save(update_fields=["tool"])
        return tool


def reject(row: McpUpstreamTool, *, author: Any) -> None:
    """Refuse this definition; the next change is shown again. What was approved before stays as it is."""
    row.rejected_digest = row.seen_digest
    row.decided_by, row.decided_at = str(author)[:150], timezone.now()
    row.save(update_fields=["rejected_digest", "decided_by", "decided_at"])


def overrides(row: McpUpstreamTool) -> dict[str, tuple[Any, Any]]:
    """Give what an operator wrote differently: column -> (the upstream's, ours)."""
    if row.tool is None or not row.approved_digest:
        return {}
    original = columns(row, row.approved)
    return {
        column: (value, getattr(row.tool, column))
        for column, value in original.items()
        if not _same(value, getattr(row.tool, column))
    }


def columns(row: McpUpstreamTool, definition: Mapping[str, Any]) -> dict[str, Any]:
    """Give what a definition means for the columns of a tool."""
    hints = _hints(definition)
    title = definition.get("title") or hints.get("title") or ""
    description = definition.get("description")
    return {
        "name": row.name,
        "title": storable(str(title))[:200],
        "description": storable(description if isinstance(description, str) else "") or row.upstream_name,
        "input_schema": definition.get("inputSchema", {}),
        "output_schema": definition.get("outputSchema", {}),
        "destructive": hints.get("destructiveHint") is not False and hints.get("readOnlyHint") is not True,
        "idempotent": hints.get("idempotentHint") is True,
        "open_world": hints.get("openWorldHint") is not False,
        "meta": definition.get("_meta", {}),
    }


def public_name(connection: McpConnection, upstream_name: str) -> str:
    """Give the name that a tool has here unless somebody writes another: too long ones are refused later."""
    return _NOT_IN_NAMES.sub("_", f"{connection.prefix}{upstream_name}")


def _new(connection: McpConnection, tool: Listed, gone: Iterable[McpUpstreamTool]) -> McpUpstreamTool:
    row = McpUpstreamTool(connection=connection, upstream_name=tool.name, name=public_name(connection, tool.name)[:500])
    unnamed = {key: value for key, value in tool.definition.items() if key != "name"}
    for former in gone:
        if former.approved_digest and unnamed == {k: v for k, v in former.approved.items() if k != "name"}:
            row.renamed_from = former.upstream_name
    return row


def _passes(connection: McpConnection, row: McpUpstreamTool) -> bool:
    if row.approved_digest == row.seen_digest or row.rejected_digest == row.seen_digest or row.refusal:
        return False
    if connection.policy == McpConnection.Policy.TRUST:
        return True
    # Under another name it is a change of what was there, not something new.
    is_new = not row.approved_digest and not row.renamed_from
    return connection.policy == McpConnection.Policy.HOLD_CHANGES and is_new


def refusal_of(row: McpUpstreamTool) -> str:
    """Say why the definition cannot be served; empty where it can."""
    if not NAME.match(row.name):
        return _t("%(name)s is no name that clients take: 1 to 64 of A-Z a-z 0-9 _ . - Give it another here.") % {
            "name": repr(row.name[:80])
        }
    taken = McpToolDefinition.objects.filter(name=row.name).exclude(pk=row.tool_id or 0).first()
    waiting = McpUpstreamTool.objects.filter(name=row.name, is_gone=False, tool=None).exclude(pk=row.pk or 0)
    if taken is not None:
        return _t("There is a tool %(name)s already. Give this one another name here.") % {"name": row.name}
    if row.tool is None and (other := waiting.order_by("pk").first()) is not None:
        return _t("%(other)s would have the name %(name)s too. Give one of them another name here.") % {
            "other": repr(other.upstream_name[:80]), "name": row.name,
        }  # fmt: skip
    for member, is_input in (("inputSchema", True), ("outputSchema", False)):
        schema = row.seen.get(member)
        if schema is None and not is_input:
            continue
        try:
            if schema is None:
                raise ValueError(_t("It is missing."))
            schemas.check(schema, input=is_input)
            if is_input:
                envelope.param_headers(schema)
        except ValueError as error:
            return f"{member}: {error}"
    return ""


def _hints(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    hints = definition.get("annotations")
    return hints if isinstance(hints, dict) else {}


def _same(one: Any, other: Any) -> bool:
    return json.canonical(one) == json.canonical(other) if one is not None and other is not None else one is other
