"""The requests of every page's badge: for new notices, and to mark them seen."""

from __future__ import annotations

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest, HttpResponseBase, JsonResponse
from django.urls import path, reverse
from django.views.decorators.http import require_POST, require_safe

from mcphub.features.notifications import live, noticing
from sessions_app.protocol.errors import ServerBusy

MOST_TOASTS = 3
MOST_COUNTED = 99
"""A badge shows no more; `99+` is enough to know."""


@require_safe
def stream_view(request: HttpRequest) -> HttpResponseBase:
    try:
        return live.stream(request)
    except ServerBusy as error:
        headers = {"Retry-After": str(error.retry_after_seconds)}
        return HttpResponse(str(error), content_type="text/plain; charset=utf-8", status=503, headers=headers)


@require_safe
def state_view(request: HttpRequest) -> HttpResponse:
    """Return the count of the badge and the newest notices after `after`, in the language of the page."""
    word = request.GET.get("after", "")
    after = int(word) if word.isascii() and word.isdecimal() and len(word) < 19 else None
    rows = noticing.live_for(request.user)  # type: ignore[arg-type]
    fresh = list(rows.filter(pk__gt=after).order_by("-pk")[:MOST_TOASTS]) if after is not None else []
    newest = rows.order_by("-pk").values_list("pk", flat=True).first() or 0
    answer = {
        "unread": unread(request),
        "newest": max(newest, after or 0),
        "toasts": [
            {
                "title": each.title,
                "words": each.words,
                "link": reverse("admin:telling_notice_change", args=[each.pk]),
                "alarm": bool(each.described and each.described.is_alarm),
            }
            for each in reversed(fresh)
        ],
    }
    return JsonResponse(answer, headers={"Cache-Control": "no-store"})


@require_POST
def seen_view(request: HttpRequest) -> HttpResponse:
    word = request.POST.get("upto", "")
    if not (word.isascii() and word.isdecimal() and len(word) < 19):
        return HttpResponseBadRequest("Say up to which notice the list was seen: upto=12.")
    noticing.see(request.user, int(word))  # type: ignore[arg-type]
    return HttpResponse(status=204)


def unread(request: HttpRequest) -> int:
    rows = noticing.live_for(request.user).filter(pk__gt=noticing.seen_upto(request.user))  # type: ignore[arg-type]
    return rows.order_by()[: MOST_COUNTED + 1].count()


_view = admin.site.admin_view
urlpatterns = [
    path("notices/stream/", _view(stream_view), name="notices_stream"),
    path("notices/state/", _view(state_view), name="notices_state"),
    path("notices/seen/", _view(seen_view), name="notices_seen"),
]
