"""The form of each kind of an upstream's definition here: columns of a row, a name, and obstacles."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from django.db.models import F
from django.utils.translation import gettext as _t

from sessions_app.protocol import envelope, json, mcp_apps, schemas, spelling, uritemplate
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import TaskSupport
from tools_catalog.models import McpConnection, McpPrompt, McpResource, McpToolDefinition, McpUpstreamTool, described
from tools_catalog.models.content import NAME, URI
from tools_catalog.models.names import prefixed, told_apart
from tools_catalog.models.offer_kinds import handler_of
from tools_catalog.upstream.core_tasks import support_of
from tools_catalog.upstream.listing import AS_TASK, PROMPT, RESOURCE, TEMPLATE, TOOL, storable

MODELS: Mapping[str, Any] = {TOOL: McpToolDefinition, RESOURCE: McpResource, TEMPLATE: McpResource, PROMPT: McpPrompt}
FIELDS: Mapping[str, str] = {TOOL: "tool", RESOURCE: "resource", TEMPLATE: "resource", PROMPT: "prompt"}
"""Kind -> the offer's column for the resulting row."""


def public_name(connection: McpConnection, upstream_name: str, kind: str = TOOL) -> str:
    """Return the name that it has here unless somebody writes another.

    A URI stays as it is: an upstream refers to it elsewhere. Only that of a view is put apart, since the hub knows
    all places that refer to it.
    """
    if (further := handler_of(kind)) is not None:
        return further.public_name(connection, upstream_name)
    if kind in (RESOURCE, TEMPLATE):
        return mcp_apps.apart(connection.slug, upstream_name)
    name = prefixed(connection.prefix, upstream_name)
    others = connection.tools.filter(kind=kind, name=name, is_gone=False).exclude(upstream_name=upstream_name)
    return told_apart(connection.prefix, upstream_name) if others.exists() else name


def columns(row: McpUpstreamTool, definition: Mapping[str, Json]) -> dict[str, object]:
    """Return the columns of the row that a definition becomes."""
    if row.kind == TOOL:
        return _tool_columns(row, definition)
    if row.kind not in MODELS:
        return {}
    shared = {
        "title": _text(definition.get("title"), 200),
        "description": _text(definition.get("description")),
        "icons": definition.get("icons", []),
        "meta": definition.get("_meta", {}),
    }
    if row.kind == PROMPT:
        return {"name": row.name, **shared, "arguments": definition.get("arguments", [])}
    return {
        "uri": row.name,
        "name": _text(definition.get("name"), 200) or row.upstream_name[:200],
        **shared,
        "mime_type": _text(definition.get("mimeType"), 200),
        "annotations": definition.get("annotations", {}),
    }


def begun(row: McpUpstreamTool) -> Any:
    """Return a new row of the catalogue for it, not saved."""
    return MODELS[row.kind](backend="upstream", workspace=row.connection.workspace)


def refusal_of(row: McpUpstreamTool) -> str:
    """Return the reason if the definition cannot be made available; empty otherwise."""
    if row.kind not in MODELS:
        further = handler_of(row.kind)
        return _t("The feature that serves it is switched off.") if further is None else further.refusal_of(row)
    if row.kind in (TOOL, PROMPT) and not NAME.match(row.name):
        return _t(
            "Clients don't accept the name %(name)s: use 1 to 64 of A-Z a-z 0-9 _ . - Choose another name here."
        ) % {"name": repr(row.name[:80])}
    if row.kind in (RESOURCE, TEMPLATE):
        if row.name not in (row.upstream_name, public_name(row.connection, row.upstream_name, row.kind)):
            return _t("A resource keeps the upstream's URI.")
        if not URI.match(row.name):
            return _t("%(uri)s is not an absolute URI, so clients can't request it.") % {"uri": repr(row.name[:80])}
    return _collision(row) or fault_of(row.kind, row.name, row.seen)


def hints(definition: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return the annotations of a tool, where they are any."""
    found = definition.get("annotations")
    return found if isinstance(found, dict) else {}


def is_theirs(column: str, ours: Json, theirs: Json) -> bool:
    """Return whether a column has what the upstream's definition means for it, be it as the upstream spelled it."""
    if column == "title" and not ours:
        return True
    if column in ("input_schema", "output_schema"):
        ours = spelling.mended(ours)[0]
    return ours is theirs or (
        ours is not None and theirs is not None and json.canonical(ours) == json.canonical(theirs)
    )


def begins_task(definition: Mapping[str, Json]) -> bool:
    """Return whether the upstream decides which calls of the tool become tasks."""
    return bool(definition.get("execution") == AS_TASK)


def _tool_columns(row: McpUpstreamTool, definition: Mapping[str, Json]) -> dict[str, object]:
    hinted = hints(definition)
    forbids = support_of(definition) == TaskSupport.FORBIDDEN
    return {
        "name": row.name,
        "title": storable(str(definition.get("title") or hinted.get("title") or _own_name(row)))[:200],
        "description": _text(definition.get("description")) or row.upstream_name,
        "input_schema": spelling.input_of(definition.get("inputSchema"))[0],
        "output_schema": spelling.mended(definition.get("outputSchema") or {})[0],
        "destructive": hinted.get("destructiveHint") is not False and hinted.get("readOnlyHint") is not True,
        "idempotent": hinted.get("idempotentHint") is True,
        "open_world": hinted.get("openWorldHint") is not False,
        "meta": _meta_with_view(row, definition.get("_meta", {})),
        "task_support": (TaskSupport.FORBIDDEN if forbids else TaskSupport.OPTIONAL).value,
    }


def _own_name(row: McpUpstreamTool) -> str:
    """Return the upstream's name of a tool as its title, where clients of the hub do not see it in the name here."""
    return "" if _shows_own_name(row) else row.upstream_name


def _shows_own_name(row: McpUpstreamTool) -> bool:
    return row.upstream_name.isascii() and row.name != told_apart(row.connection.prefix, row.upstream_name)


def remarks_of(row: McpUpstreamTool) -> list[str]:
    """Return what the hub changed of a definition in order to serve it."""
    if row.kind != TOOL:
        return []
    found = [f"inputSchema: {each}" for each in spelling.input_of(row.seen.get("inputSchema"))[1]]
    found += [f"outputSchema: {each}" for each in spelling.mended(row.seen.get("outputSchema") or {})[1]]
    if not _shows_own_name(row):
        found.append(_t("%(theirs)s is served as %(ours)s.") % {"theirs": row.upstream_name[:200], "ours": row.name})
    return found


def _meta_with_view(row: McpUpstreamTool, meta: Json) -> Json:
    """Return a tool's `_meta` with the URI of its view as clients of the hub read it."""
    return mcp_apps.renamed(meta, partial(mcp_apps.apart, row.connection.slug)) if isinstance(meta, dict) else meta


def _collision(row: McpUpstreamTool) -> str:
    kinds = (RESOURCE, TEMPLATE) if row.kind in (RESOURCE, TEMPLATE) else (row.kind,)
    field = FIELDS[row.kind]
    column = "uri" if field == "resource" else "name"
    own = getattr(row, f"{field}_id")
    if MODELS[row.kind].objects.filter(**{column: row.name}).exclude(pk=own or 0).exists():
        if field == "tool":
            return _t("A tool named %(name)s already exists. Choose another name here.") % {"name": row.name}
        if field == "prompt":
            return _t("A prompt named %(name)s already exists. Choose another name here.") % {"name": row.name}
        return _t("A resource %(uri)s already exists. Only one of them can be available.") % {"uri": row.name[:200]}
    if own is not None:
        return ""
    waiting = McpUpstreamTool.objects.filter(kind__in=kinds, name=row.name, is_gone=False, **{field: None})
    waiting = waiting.exclude(rejected_digest=F("seen_digest")).select_related("connection")
    own_kinds = waiting.filter(connection=row.connection_id)
    if row.kind == RESOURCE:  # some list a resource among their templates, too
        waiting = waiting.exclude(pk__in=own_kinds.filter(kind=TEMPLATE))
    elif row.kind == TEMPLATE and own_kinds.filter(kind=RESOURCE).exists():
        return _t("The upstream also lists %(uri)s as a resource: approve that one.") % {"uri": row.name[:200]}
    other = waiting.exclude(pk=row.pk or 0).order_by("pk").first()
    if other is None:
        return ""
    if field == "resource":
        return _t(
            "The connection %(other)s also offers %(uri)s. Only one of them can be available: reject the other."
        ) % {"other": other.connection.slug, "uri": row.name[:200]}
    return _t("%(other)s would also be named %(name)s. Choose another name for one of them here.") % {
        "other": repr(other.upstream_name[:80]),
        "name": row.name[:200],
    }


def fault_of(kind: str, name: str, definition: Mapping[str, Json]) -> str:
    """Return the fault of a definition by itself; empty if there is none."""
    try:
        if kind == TEMPLATE:
            uritemplate.parse(name)
        elif kind == RESOURCE and uritemplate.is_template(name):
            raise ValueError(_t("A URI can't contain braces."))
        elif kind == PROMPT:
            described.check_arguments(definition.get("arguments", []), is_foreign=True)
    except ValueError as error:
        return str(error)
    if kind != TOOL:
        return ""
    for member, is_input in (("inputSchema", True), ("outputSchema", False)):
        schema = definition.get(member)
        if not schema and not is_input:
            continue
        try:
            schema = (spelling.input_of(schema) if is_input else spelling.mended(schema))[0]
            schemas.check(schema, input=is_input)
            if is_input:
                envelope.param_headers(schema)
        except ValueError as error:
            return f"{member}: {error}"
    return ""


def _text(value: Json, most: int | None = None) -> str:
    return storable(value if isinstance(value, str) else "")[:most]
