"""The head of a call's page: tool, caller, time, outcome, and the next step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t

from invocations.admin.advice import advice
from invocations.admin.reading import body_block, may_read_bodies
from invocations.lists.erased import digest_of
from invocations.models import McpToolInvocation
from invocations.parts import FailureLink
from sessions_app.kit.admin.base import mark
from sessions_app.kit.admin.json_tree import json_tree
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.lists import searching
from sessions_app.kit.shown import INLINE_CHARACTERS, clipped, duration, pretty, visible
from tools_catalog.models import McpToolVersion

_LIST = "admin:invocations_mcptoolinvocation_changelist"
_PAGES = {
    "key": ("admin:sessions_app_apikey_change", "sessions_app.view_apikey"),
    "user": ("admin:auth_user_change", "auth.view_user"),
}


@dataclass(frozen=True, slots=True)
class CallFact:
    title: str
    words: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class CallBody:
    """`whole` is where all of it is had, where the page shows a part."""

    name: str
    title: str
    shown: SafeString
    whole: str = ""


@dataclass(frozen=True, slots=True)
class Headline:
    what: str
    version: str
    tool: str
    """The address of the version that ran; empty where there is none on record."""
    status: SafeString
    moment: datetime
    facts: list[CallFact]
    happened: str
    then: str
    said: str
    """The error's own message, for readers of bodies."""
    retry: str
    bodies: list[CallBody]
    links: list[CallFact]
    """Of a failed call, to calls and pages about such failures."""


def headline(request: HttpRequest, row: McpToolInvocation) -> Headline:
    is_failed = row.status == "error"
    happened, then = advice(row.error_code) if is_failed else ("", "")
    may_read = may_read_bodies(request)
    retry = "" if row.retryable is None else _t("safe to retry") if row.retryable else _t("not safe to retry")
    return Headline(
        what=clipped(row.what, 128),
        version=f"v{row.tool_version}" if row.tool_version else row.method or "",
        tool=_version(row),
        status=mark("bad" if is_failed else "good", row.get_status_display()),
        moment=timezone.localtime(row.started_at),
        facts=list(_facts(request, row)),
        happened=happened,
        then=then,
        said=_said(row) if is_failed and may_read else "",
        retry=retry,
        bodies=list(_bodies(row)) if may_read else [],
        links=list(_links(request, row)) if is_failed else [],
    )


def _facts(request: HttpRequest, row: McpToolInvocation) -> Any:
    kind, _colon, number = row.principal.partition(":")
    page, permission = _PAGES.get(kind, ("", ""))
    own = reverse(page, args=[number]) if page and number.isdecimal() and request.user.has_perm(permission) else ""
    yield CallFact(
        _t("Caller"), clipped(row.caller_label or row.principal, 80), own or _listed(q=f"caller:{row.principal}")
    )
    client = f"{row.client_name} {row.client_version}".strip()
    if client:
        yield CallFact(_t("Client"), clipped(client, 80), _listed(q=searching.written("client", row.client_name)))
    if row.allowed_client:
        yield CallFact(_t("Authorized app"), clipped(row.allowed_client, 80))
    yield CallFact(_t("Duration"), duration(row.duration_ms))
    if row.connection:
        yield CallFact(
            _t("Connection"), clipped(row.connection, 64), _listed(q=searching.written("connection", row.connection))
        )
    yield CallFact(_t("Transport"), f"{row.get_transport_display()} {row.protocol_version}".strip())
    if row.error_code:
        code = row.error_code if row.jsonrpc_code is None else f"{row.error_code} ({row.jsonrpc_code})"
        yield CallFact(_t("Error code"), code, _listed(q=f"code:{row.error_code}"))


def _bodies(row: McpToolInvocation) -> Any:
    titles = {"arguments": _t("Arguments"), "result": _t("Result"), "error": _t("Error")}
    for name, title in titles.items():
        value = getattr(row, name)
        if name != "arguments" and value is None:
            continue
        shown = body_block(value, title) if digest_of(value) else json_tree(value, name, title)
        is_whole = len(pretty(value)) <= INLINE_CHARACTERS
        whole = "" if is_whole else reverse("admin:invocation_body", args=[row.pk, name])
        yield CallBody(name, title, shown, whole)


def _said(row: McpToolInvocation) -> str:
    error = row.error if isinstance(row.error, dict) else {}
    message = error.get("message")
    return visible(message[:500]) if isinstance(message, str) else ""


def _links(request: HttpRequest, row: McpToolInvocation) -> Iterator[CallFact]:
    if row.tool_name:
        words = f"{searching.written('tool', row.tool_name)} code:{row.error_code}"
        yield CallFact("", _t("Similar failures"), _listed(q=words))
    for part in declared(FailureLink):
        if address := loaded(part.address)(request, row):
            yield CallFact("", str(part.title), address)


def _version(row: McpToolInvocation) -> str:
    if not row.tool_digest:
        return ""
    found = (
        McpToolVersion.objects.filter(digest=row.tool_digest, version=row.tool_version).values_list("tool_id").first()
    )
    return reverse("admin:tool_version", args=[found[0], row.tool_version]) if found else ""


def _listed(**query: str) -> str:
    return f"{reverse(_LIST)}?{urlencode(query)}"
