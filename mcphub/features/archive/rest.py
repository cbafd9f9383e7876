"""REST over the archive: calls of closed months, found by the line that the console's list of calls has."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from drf_spectacular.utils import OpenApiParameter
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.urls import replace_query_param

from invocations.chain import service
from invocations.chain.verifier import Bad
from invocations.lists.filters import SEARCHED_BODIES, BodyHolds
from invocations.models import McpToolInvocation
from invocations.rest import reads
from invocations.rest.serializers import BODIES, READ_BODIES, sees_bodies
from mcphub.features.archive.answers import ArchivedCallSerializer, ArchivePageSerializer, told_page
from mcphub.features.archive.duck import NoDuckDB
from mcphub.features.archive.searching import (
    ArchiveBusy,
    ArchivePage,
    ArchiveProblem,
    Bounds,
    NoArchive,
    read_line,
    search,
)
from sessions_app.kit.lists.searching import LONGEST, Search
from sessions_app.kit.rest import selection
from sessions_app.kit.rest.errors import Conflict, NoSuchPage
from sessions_app.kit.rest.filters import refuse_strange
from sessions_app.kit.rest.lists import KeysetPagination, limit_of
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowViewSet
from sessions_app.protocol.errors import Forbidden, ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import current

_LINE = "q"
_MEMBERS = ArchivedCallSerializer.Meta.fields
_LINE_WORDS = (
    "The line of the console's list of calls: `tool:pay status:error -caller:key:1 time:2026-10-31`, and free words. "
    "Absent: all calls. A wrong key is answered with those that there are."
)
_PARAMETERS = [
    OpenApiParameter(_LINE, {"type": "string", "maxLength": LONGEST}, description=_LINE_WORDS),
    OpenApiParameter(
        "cursor",
        {"type": "string", "pattern": "^[0-9]{1,18}$"},
        description="Where the page begins: taken from `next` of an answer.",
    ),
    OpenApiParameter(
        "limit",
        {
            "type": "integer",
            "minimum": 1,
            "maximum": KeysetPagination.HIGHEST_LIMIT,
            "default": KeysetPagination.DEFAULT_LIMIT,
        },
        description="Rows on a page.",
    ),
    selection.parameter(_MEMBERS),
]


class ArchivedCallViewSet(RowViewSet[McpToolInvocation]):
    queryset = McpToolInvocation.objects.none()
    serializer_class = ArchivedCallSerializer
    filter_backends = []
    pagination_class = None
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {"read": "invocations.view_mcptoolinvocation", "write": "invocations.view_mcptoolinvocation"}
    of_workspace = frozenset({"list"})
    parameters = (_LINE, "cursor", "limit", selection.NAME)
    may_conflict = True

    @extend_schema(
        summary="Archived calls, newest first",
        description=(
            "Calls of closed months, each with its place in the archive. Only months and files that are as they were "
            "signed are read. A search is bounded in what it reads, in time and in memory: a page may hold fewer rows "
            "than `limit`, or none. Where `next` is not null, follow it: there may be more."
        ),
        parameters=_PARAMETERS,
        responses=ArchivePageSerializer,
    )
    def list(self, request: Request) -> Response:
        refuse_strange(request, self.parameters)
        members = selection.chosen(request, _MEMBERS)
        limit = limit_of(request, KeysetPagination.DEFAULT_LIMIT, KeysetPagination.HIGHEST_LIMIT)
        before = _before(request)
        asked = _asked(request)
        bodies = [name for name in BODIES if name in members] if sees_bodies(request) else []
        searched = _searched(request, asked)
        page = _page(asked, limit, before, with_bodies=bool(bodies))
        if searched or (bodies and page.calls):
            rows = [each.call.pk for each in page.calls] if bodies else []
            query = {**_recorded(request, asked), **searched}
            reads.note(request.user, request.path, bodies, rows, searched=sorted(searched), query=query)
        told = told_page(page, hidden=not sees_bodies(request), members=members)
        if page.next is not None:
            told["next"] = replace_query_param(request.build_absolute_uri(), "cursor", str(page.next))
        return Response(told)


def _asked(request: Request) -> Search:
    try:
        return read_line(request.query_params.get(_LINE, ""))
    except ArchiveProblem as problem:
        raise ValidationError({_LINE: [str(problem)]}) from problem


def _before(request: Request) -> int | None:
    word = request.query_params.get("cursor")
    if word is None:
        return None
    if not (word.isascii() and word.isdecimal() and len(word) <= 18):
        raise NoSuchPage
    return int(word)


def _searched(request: Request, asked: Search) -> dict[str, Json]:
    """Return the conditions on bodies as the audit may keep them; raise Forbidden without the right to read bodies."""
    found: dict[str, Json] = {}
    for demand in asked.demands:
        if isinstance(demand.of, BodyHolds):
            words = " ".join(value.recorded() for value in demand.values)
            found[demand.of.name] = f"{found[demand.of.name]} {words}" if demand.of.name in found else words
    if found and not sees_bodies(request):
        raise Forbidden(
            f"You may not read bodies, so not search them: leave {', '.join(found)} out, or ask an administrator for "
            f"{READ_BODIES}.",
            permission=READ_BODIES,
        )
    return found


def _recorded(request: Request, asked: Search) -> dict[str, Json]:
    """Return the parameters as the audit may keep them: without the line's conditions on bodies."""
    line = " ".join(asked.text[each.begin : each.end] for each in asked.tokens if each.key not in SEARCHED_BODIES)
    query: dict[str, Json] = dict(request.query_params.items())
    return {**query, _LINE: line} if _LINE in query else query


def _page(asked: Search, limit: int, before: int | None, *, with_bodies: bool) -> ArchivePage:
    told: dict[str, Any] = {"before": before, "with_bodies": with_bodies, "scope": current()}
    try:
        trusted = service.keys().publics()
        return search(settings.MCPHUB_ARCHIVE_DIR, trusted, asked, most=limit, bounds=Bounds.of_settings(), **told)
    except NoArchive:
        return ArchivePage()
    except ArchiveBusy as busy:
        raise ServerBusy(str(busy)) from busy
    except (ArchiveProblem, NoDuckDB) as problem:
        raise Conflict(str(problem)) from problem
    except Bad as bad:
        raise Conflict(
            f"Nothing was searched, as the archive is not as it was signed. {bad} Report this to the hub's operator."
        ) from bad
    except OSError as error:
        raise Conflict(f"The archive cannot be read: {error.strerror}. Ask the hub's operator.") from error
