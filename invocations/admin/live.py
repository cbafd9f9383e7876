"""The live list of calls: events carry the newest sequence; the page fetches rows after its last.

The events are those of GET /api/invocations/stream/ (`rest.live`), without the calls themselves: they name a sequence
only once every row below it is visible, at any worker. A page that fetches rows after its last sequence, up to the
one in the event, misses none and shows none twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase, StreamingHttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.translation import gettext as _t

from invocations.admin.filters import searches_bodies
from invocations.models import McpToolInvocation
from invocations.rest import live
from sessions_app.kit.admin.changelist import POSITION
from sessions_app.kit.admin.parts import ListPart
from sessions_app.kit.lists.filters import During
from sessions_app.kit.lists.searching import Search
from sessions_app.protocol.errors import ServerBusy
from sessions_app.protocol.json import Json
from sessions_app.workspaces import scope

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin

FIRST_ROWS = 50
MOST_ROWS = 200
"""On the page; of rows that arrive faster, the newest are shown with a notice."""


class LiveTail(ListPart):
    """Offers to follow the list, where its filters can be followed."""

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        if scope.current() is not None:  # the stream outlives the request, and so its workspace
            return {"live_refused": _t("In a workspace the list has no live view. Reload it.")}
        return {"live_refused": refused(page, request), "live_most": MOST_ROWS}

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        view = page.admin_site.admin_view
        return [
            path("live/<int:after>/", view(partial(self.live_view, page)), name="invocation_live"),
            path("live/<int:after>/<int:upto>/", view(partial(self.live_rows_view, page)), name="invocation_live_rows"),
        ]

    def live_view(self, page: HubAdmin, request: HttpRequest, after: int) -> HttpResponseBase:
        """Stream an event for each new call that the filters let through; its id is the sequence."""
        rows = _followed(page, request)
        if rows is None:
            return HttpResponseBadRequest(_t("This list has no live view."))
        try:
            live.check_room()
        except ServerBusy as error:
            return HttpResponse(str(error), status=503, headers={"Retry-After": "10"})
        last = request.headers.get("Last-Event-ID", "")
        position = int(last) if last.isascii() and last.isdecimal() and len(last) < 19 else min(after, 2**63 - 1)

        def may_read() -> bool:
            return still_sees(request)

        streamed = live.events(rows.queryset.only("id"), position, _nothing_of, may_read)
        return StreamingHttpResponse(
            streamed, content_type="text/event-stream", headers={"X-Accel-Buffering": "no", "Cache-Control": "no-store"}
        )

    def live_rows_view(self, page: HubAdmin, request: HttpRequest, after: int, upto: int) -> HttpResponseBase:
        """Return the newest rows of a stretch of the sequence as a table; 0 to 0: the newest there are."""
        rows = _followed(page, request)
        if rows is None:
            return HttpResponseBadRequest(_t("This list has no live view."))
        most = MOST_ROWS
        if upto == 0:
            most, upto = FIRST_ROWS, live.settling.look()
            if upto == 0 and McpToolInvocation.objects.exists():
                # Somebody writes just now, and this process does not know yet up to where all is visible.
                return HttpResponse(status=503, headers={"Retry-After": "1"})
        if max(after, upto) >= 2**63:
            return HttpResponseBadRequest(_t("This list has no live view."))
        found = list(rows.queryset.filter(id__gt=after, id__lte=upto).order_by("-id")[: most + 1])
        rows.result_list, rows.formset = found[:most], None
        headers = {"X-Upto": str(upto), "X-More": str(int(len(found) > most)), "Cache-Control": "no-store"}
        return TemplateResponse(request, "admin/hub/live_rows.html", {"cl": rows, "opts": page.opts}, headers=headers)


def _followed(page: HubAdmin, request: HttpRequest) -> ChangeList | None:
    """Return the list as the address filters it, or None where it cannot be followed."""
    if not page.has_view_permission(request):
        raise PermissionDenied
    if refused(page, request):
        return None
    try:
        return page.get_changelist_instance(request)
    except IncorrectLookupParameters:
        return None


def refused(page: HubAdmin, request: HttpRequest) -> str:
    """Return the reason if the requested list has no live view; empty otherwise."""
    search = page.search_of(request)
    if search.words or search.problems:
        return _t("A list with free-text search has no live view. Use keys instead, such as tool:echo.")
    if searches_bodies(request, search):
        return _t("A filter by argument or result reads every body, so this list has no live view. Remove the filter.")
    if request.GET.get("started_at_to_0", "").strip() or _has_end(search):
        return _t("The time range has an end, so no new call can match. Remove the end.")
    if any(request.GET.get(name) for name in POSITION):
        return _t("Only the first page, with the newest calls, has a live view.")
    return ""


def _has_end(search: Search) -> bool:
    ends = [each for demand in search.demands if isinstance(demand.of, During) for each in demand.values]
    return any(before is not None for _after, before in ends)


def still_sees(request: HttpRequest) -> bool:
    """Ask the database anew: the rights may be gone, and the login too."""
    person = get_user_model()._default_manager.filter(pk=request.user.pk or 0, is_active=True, is_staff=True).first()
    if person is None or not person.has_perm("invocations.view_mcptoolinvocation"):
        return False
    key = request.session.session_key
    return key is not None and request.session.exists(key)


def _nothing_of(found: list[McpToolInvocation]) -> Iterator[Mapping[str, Json]]:
    return iter([{}] * len(found))
