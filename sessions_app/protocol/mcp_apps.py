"""The extension MCP Apps (`io.modelcontextprotocol/ui`, SEP-1865, 2026-01-26): views, which are HTML pages for a
tool's results, and the visibility of tools. Pure.

A tool names its view by a URI of the scheme `ui`, in `_meta.ui.resourceUri` and, for older clients, in
`_meta["ui/resourceUri"]`. Two upstreams may use one URI, so the hub puts the connection's name in front of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sessions_app.protocol.json import Json

EXTENSION = "io.modelcontextprotocol/ui"
MIME_TYPE = "text/html;profile=mcp-app"
CAPABILITY: dict[str, Json] = {"mimeTypes": [MIME_TYPE]}
SCHEME = "ui://"
FLAT = "ui/resourceUri"
"""The older place of a view's URI, in `_meta` itself."""
MODEL, APP = "model", "app"
EVERYBODY = frozenset({MODEL, APP})


def declared(capabilities: Mapping[str, Json]) -> bool:
    """Return whether a client declares support for views (SEP-1865, client capabilities)."""
    extensions = capabilities.get("extensions")
    return isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)


def is_view(uri: Json) -> bool:
    return isinstance(uri, str) and uri.startswith(SCHEME)


def view_of(meta: Json) -> str:
    """Return the URI of the view that a tool's `_meta` names; empty where it names none."""
    if not isinstance(meta, dict):
        return ""
    ui = meta.get("ui")
    for uri in (ui.get("resourceUri") if isinstance(ui, dict) else None, meta.get(FLAT)):
        if isinstance(uri, str) and uri.startswith(SCHEME):
            return uri
    return ""


def domains(meta: Json) -> frozenset[str]:
    """Return the hosts outside that the `_meta` of a view names (SEP-1865, csp)."""
    ui = meta.get("ui") if isinstance(meta, dict) else None
    csp = ui.get("csp") if isinstance(ui, dict) else None
    named = csp.values() if isinstance(csp, dict) else ()
    return frozenset(str(each) for hosts in named if isinstance(hosts, list) for each in hosts)


def without_domains(meta: Mapping[str, Json]) -> dict[str, Json]:
    """Return the `_meta` of a view that reaches nothing outside."""
    ui = meta.get("ui")
    return (
        {**meta, "ui": {name: value for name, value in ui.items() if name != "csp"}}
        if isinstance(ui, dict)
        else {**meta}
    )


def visibility(meta: Json) -> frozenset[str]:
    """Return the permitted callers of a tool, by its `_meta`: the model, views of the same server, or both."""
    ui = meta.get("ui") if isinstance(meta, dict) else None
    named = ui.get("visibility") if isinstance(ui, dict) else None
    if not isinstance(named, list):
        return EVERYBODY
    return EVERYBODY & {each for each in named if isinstance(each, str)}


def check(meta: Mapping[str, Json]) -> None:
    """Raise ValueError if clients cannot read the view part of a tool's `_meta`."""
    ui = meta.get("ui", {})
    if not isinstance(ui, dict):
        raise ValueError('ui must be an object, such as {"resourceUri": "ui://clock/face.html"}.')
    for where, uri in (("ui.resourceUri", ui.get("resourceUri")), (FLAT, meta.get(FLAT))):
        if uri is not None and not is_view(uri):
            raise ValueError(f"{where} must be a URI that begins with {SCHEME}.")
    named = ui.get("visibility")
    if named is not None and not (isinstance(named, list) and named and all(each in EVERYBODY for each in named)):
        raise ValueError('ui.visibility must be a list of "model" and "app".')


def with_view(meta: Mapping[str, Json], view: str, visible_to: Iterable[str]) -> dict[str, Json]:
    """Return a tool's `_meta` with its view, in both places, and with its permitted callers. Defaults are omitted: no
    view, and visible to everybody.
    """
    made, named = dict(meta), list(visible_to)
    ui: dict[str, Json] = {
        **({"resourceUri": view} if view else {}),
        **({} if {*named} == EVERYBODY else {"visibility": named}),
    }
    if ui:
        made["ui"] = {**made.get("ui", {}), **ui}
    if view:
        made[FLAT] = view
    return made


def apart(connection: str, uri: str) -> str:
    """Return the URI by which clients of the hub know a view of a connection; another URI as it is."""
    return f"{SCHEME}{connection}/{uri[len(SCHEME) :]}" if uri.startswith(SCHEME) else uri


def at_upstream(connection: str, uri: str) -> str:
    """Return the URI at a connection's own upstream of the view that clients know by `uri`."""
    prefix = f"{SCHEME}{connection}/"
    return f"{SCHEME}{uri[len(prefix) :]}" if uri.startswith(prefix) else uri


def renamed(meta: Mapping[str, Json], name: Callable[[str], str]) -> dict[str, Json]:
    """Return `_meta` with the URI of its view as `name` gives it, in both places. URIs of other things stay."""
    made = dict(meta)
    ui = made.get("ui")
    if isinstance(ui, dict) and is_view(ui.get("resourceUri")):
        made["ui"] = {**ui, "resourceUri": name(ui["resourceUri"])}
    if is_view(made.get(FLAT)):
        made[FLAT] = name(made[FLAT])
    return made


def blocks_renamed(content: Json, name: Callable[[str], str]) -> Json:
    """Return the content of a result with the URIs of views renamed by `name`: in links, and in embedded resources."""
    if not isinstance(content, list):
        return content
    return [_block_renamed(block, name) for block in content]


def _block_renamed(block: Json, name: Callable[[str], str]) -> Json:
    if not isinstance(block, dict):
        return block
    if block.get("type") == "resource_link" and is_view(block.get("uri")):
        return {**block, "uri": name(block["uri"])}
    inner = block.get("resource")
    if block.get("type") == "resource" and isinstance(inner, dict) and is_view(inner.get("uri")):
        return {**block, "resource": {**inner, "uri": name(inner["uri"])}}
    return block
