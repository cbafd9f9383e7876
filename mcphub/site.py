"""The site of the console: its users, and its first page."""

from __future__ import annotations

from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.functional import SimpleLazyObject
from unfold.sites import UnfoldAdminSite

from sessions_app.workspaces.acting import acting_of


class HubSite(UnfoldAdminSite):  # type: ignore[misc, unused-ignore]
    """The theme's site, open to people of workspaces too."""

    def has_permission(self, request: HttpRequest) -> bool:
        return bool(super().has_permission(request)) or (request.user.is_active and acting_of(request.user) is not None)

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[Any]:
        """Return the apps as Django does, made where they are read: the side bar shows the map in their place."""
        return cast(list[Any], SimpleLazyObject(lambda: super(HubSite, self).get_app_list(request, app_label)))

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Lead whoever acts in a workspace to its calls: the overview is about the whole hub."""
        if acting_of(request.user) is not None:
            return redirect("admin:invocations_mcptoolinvocation_changelist")
        answer: HttpResponse = super().index(request, extra_context)
        return answer
