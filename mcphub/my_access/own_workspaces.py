"""The workspaces that the person belongs to: where clients connect, and the way to their pages."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.http import HttpRequest

from mcphub.my_access.parts import Part
from sessions_app.models import McpWorkspace
from sessions_app.workspaces import roles
from sessions_app.workspaces.models import keys_of

_MOST = 100


def _rows(request: HttpRequest) -> Mapping[str, object]:
    assert request.user.is_authenticated
    mine = keys_of(request.user.groups.values_list("pk", flat=True))
    rows = list(McpWorkspace.objects.filter(pk__in=mine)[:_MOST])
    opened = {each.pk for each in roles.open_to(request.user)} if rows else set()
    base = settings.MCPHUB_PUBLIC_URL.rstrip("/")
    shown = [
        {"slug": row.slug, "title": row.title, "address": f"{base}{row.path}", "has_pages": row.pk in opened}
        for row in rows
    ]
    return {"workspaces": shown}


PART = Part("workspaces", "me/workspaces.html", _rows)
