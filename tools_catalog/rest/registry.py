"""The hub as a registry of MCP servers: its endpoint, toolsets and connections, for clients' lists of allowed
servers.

The API is that of the MCP registry, `/v0.1/servers`, to read. A caller sees the toolsets that it may use. If
`MCPHUB_PUBLIC_REGISTRY` is set, everybody sees entries without groups.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlsplit

from django.conf import settings
from django.utils.dateparse import parse_datetime
from django.utils.timezone import is_naive
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app import endpoints
from sessions_app.kit.rest.base import HubView
from sessions_app.kit.rest.errors import NOT_FOUND
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.protocol.errors import EgressRefused, Forbidden, HubError, InvalidParams
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.models import McpConnection, McpToolset
from tools_catalog.rest.tools import visible_rows
from tools_catalog.upstream import spec

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_OFFICIAL: Final = "io.modelcontextprotocol.registry/official"
"""Where clients look for times and whether a version is the latest."""
_USUAL, _MOST = 30, 100
_LONGEST_WORDS = 100
"""Of a description, by the schema of registries."""
_KEY = {"name": "Authorization", "description": "Bearer, and a key of the hub.", "isRequired": True, "isSecret": True}


class NoSuchServer(HubError):
    """A server, or a version of one, that the registry does not have for this caller."""

    code = NOT_FOUND
    sentence = "This registry has no such server or version. GET /v0.1/servers lists them; each has one version."
    http_status = 404


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    title: str
    words: str
    version: str
    published_at: datetime | None
    updated_at: datetime | None
    remotes: tuple[Mapping[str, Any], ...] = ()


class MayRead(BasePermission):
    """Admits keys that may list tools, people who may see toolsets, and, if it is public, everybody."""

    def has_permission(self, request: Request, view: Any) -> bool:
        key: Any = request.auth
        if key is not None:
            if "tools:list" not in key.scopes:
                raise Forbidden("The key lacks the scope tools:list. Ask the operator for a key that has it.")
            return True
        if request.user and request.user.is_authenticated:
            return bool(request.user.has_perm("tools_catalog.view_mcptoolset")) or settings.MCPHUB_PUBLIC_REGISTRY
        return bool(settings.MCPHUB_PUBLIC_REGISTRY)


class _View(HubView):
    permission_classes = (MayRead,)
    missing = NoSuchServer.sentence

    def finalize_response(self, request: Any, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        if settings.MCPHUB_PUBLIC_REGISTRY:  # pages of other origins may read what anybody may read
            response["Access-Control-Allow-Origin"] = "*"
            response["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
        return response


@extend_schema(exclude=True)
class ServersView(_View):
    def get(self, request: Request) -> Response:
        found = _chosen(_entries(request), request)
        after = _cursor(request.query_params.get("cursor", ""))
        limit = _limit(request.query_params.get("limit", ""))
        left = [each for each in found if each.name > after]
        page = left[:limit]
        more = {"nextCursor": _encoded(page[-1].name)} if len(left) > limit else {}
        return Response({"servers": [_answer(each) for each in page], "metadata": {"count": len(page), **more}})


@extend_schema(exclude=True)
class VersionsView(_View):
    def get(self, request: Request, name: str) -> Response:
        entry = _find(request, name)
        return Response({"servers": [_answer(entry)], "metadata": {"count": 1}})


@extend_schema(exclude=True)
class VersionView(_View):
    def get(self, request: Request, name: str, version: str) -> Response:
        entry = _find(request, name)
        if version not in ("latest", entry.version):
            raise NoSuchServer
        return Response(_answer(entry))


def _find(request: Request, name: str) -> _Entry:
    for entry in _entries(request):
        if entry.name == name:
            return entry
    raise NoSuchServer


def _entries(request: Request) -> list[_Entry]:
    space, base = endpoints.namespace(), settings.MCPHUB_PUBLIC_URL.rstrip("/")
    hub = _Entry(
        f"{space}/hub", "MCP Hub", "All tools of this hub.", settings.MCPHUB_VERSION, None, None, (_at(base, "/mcp"),)
    )
    toolsets = [
        _Entry(
            f"{space}/toolset.{row.slug}",
            row.title or row.slug,
            row.description or f"The toolset {row.slug} of this hub.",
            _version(row.updated_at),
            row.created_at,
            row.updated_at,
            (_at(base, row.path),),
        )
        for row in _open_to(McpToolset.objects.filter(enabled=True), request)
    ]
    tells = _may_see_addresses(request)
    connections = [
        _Entry(
            f"{space}/upstream.{row.slug}",
            row.title or row.slug,
            f"Served by this hub: its tools are at the endpoint of the hub, under {row.prefix or 'their own names'}.",
            _version(row.updated_at),
            row.created_at,
            row.updated_at,
            _own_address(row) if tells else (),
        )
        for row in _open_to(McpConnection.objects.filter(enabled=True), request)
    ]
    return sorted([hub, *toolsets, *connections], key=lambda each: each.name)


def _open_to(rows: Any, request: Request) -> Any:
    """Return the rows that the caller may know of: of a key those of its groups, for nobody those of no group."""
    if request.auth is not None:
        return visible_rows(rows, request)
    is_known = request.user and request.user.is_authenticated
    permission = f"tools_catalog.view_{rows.model._meta.model_name}"
    return rows if is_known and request.user.has_perm(permission) else rows.filter(groups=None, workspace=None)


def _may_see_addresses(request: Request) -> bool:
    """Return whether the caller may read connections, as over REST: an address of an upstream can reveal much."""
    key: Any = request.auth
    if key is not None:
        return "catalog:write" in key.scopes
    return bool(request.user and request.user.has_perm("tools_catalog.view_mcpconnection"))


def _own_address(row: McpConnection) -> tuple[Mapping[str, Any], ...]:
    """Return the upstream's own address, if it is public and contains nothing else."""
    parts = urlsplit(row.url)
    if parts.scheme != "https" or parts.query or parts.fragment:
        return ()
    try:
        EgressPolicy().check_url(row.url)
    except EgressRefused:
        return ()
    headers = [
        {"name": name, "isRequired": True, "isSecret": any(template.secrets)}
        for name, template in spec.parse_headers(row.headers)
    ]
    kind = "sse" if row.transport == spec.SSE else "streamable-http"
    return ({"type": kind, "url": row.url, **({"headers": headers} if headers else {})},)


def _at(base: str, path: str) -> Mapping[str, Any]:
    return {"type": "streamable-http", "url": f"{base}{path}", "headers": [_KEY]}


def _answer(entry: _Entry) -> dict[str, Any]:
    words = entry.words if len(entry.words) <= _LONGEST_WORDS else f"{entry.words[: _LONGEST_WORDS - 1]}…"
    server = {
        "$schema": _SCHEMA,
        "name": entry.name,
        "title": entry.title[:_LONGEST_WORDS],
        "description": words,
        "version": entry.version,
        **({"remotes": list(entry.remotes)} if entry.remotes else {}),
    }
    times = {
        name: moment.isoformat().replace("+00:00", "Z")
        for name, moment in (("publishedAt", entry.published_at), ("updatedAt", entry.updated_at))
        if moment is not None
    }
    return {"server": server, "_meta": {_OFFICIAL: {"status": "active", "isLatest": True, **times}}}


def _chosen(entries: list[_Entry], request: Request) -> list[_Entry]:
    """Return the entries that match the query. An unknown parameter is left alone: registries have
    some of their own.
    """
    query = request.query_params
    tests: list[Callable[[_Entry], bool]] = []
    if word := query.get("search", "").lower():
        tests.append(lambda each: word in each.name.lower())
    if (version := query.get("version", "")) and version != "latest":
        tests.append(lambda each: each.version == version)
    if since := query.get("updated_since", ""):
        moment = _moment(since)
        tests.append(lambda each: each.updated_at is not None and each.updated_at >= moment)
    return [each for each in entries if all(test(each) for test in tests)]


def _moment(text: str) -> datetime:
    try:
        found = parse_datetime(text.replace(" ", "+"))
    except ValueError:
        found = None
    if found is None or is_naive(found):
        raise InvalidParams("updated_since is no time. Write it as in 2026-03-01T12:00:00Z.")
    return found


def _limit(text: str) -> int:
    if not text:
        return _USUAL
    if not text.isascii() or not text.isdecimal() or len(text) > 6 or not int(text) >= 1:
        raise InvalidParams(f"limit is a number from 1 to {_MOST}.")
    return min(int(text), _MOST)


def _cursor(text: str) -> str:
    try:
        return base64.urlsafe_b64decode(text.encode("ascii")).decode()
    except (UnicodeError, binascii.Error):
        raise InvalidParams("There is no such page. Follow nextCursor as it is given.") from None


def _encoded(name: str) -> str:
    return base64.urlsafe_b64encode(name.encode()).decode("ascii")


def _version(moment: datetime) -> str:
    """Return a version that grows with each change: versions of registries are like those of software."""
    return f"1.0.{int(moment.timestamp())}"
