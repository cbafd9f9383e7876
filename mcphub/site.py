"""The site of the console: its users, and its first page."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from unfold.sites import UnfoldAdminSite

from sessions_app.workspaces.acting import acting_of


class HubSite(UnfoldAdminSite):  # type: ignore[misc, unused-ignore]
    """The theme's site, open to people of workspaces too."""

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(super().has_permission(request)) or (request.user.is_active and acting_of(request.user) is not None)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Return the apps as Django does, once a request: the theme asks twice, and some rights ask the database."""
        kept: dict[str | None, list[Any]] = request.__dict__.setdefault("hub_app_lists", {})
        if app_label not in kept:
            kept[app_label] = super().get_app_list(request, app_label)
        return kept[app_label]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lead whoever acts in a workspace to its calls: the overview is about the whole hub."""
        if acting_of(request.user) is not None:
            return redirect("admin:invocations_mcptoolinvocation_changelist")
        answer: HttpResponse = super().index(request, extra_context)
        return answer
