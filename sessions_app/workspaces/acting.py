"""In which workspace a person acts: chosen for a login, looked at with each request, and left at its end.

A person with no right in the whole hub always acts in a workspace; others may choose one. Then every query is
narrowed to it (`scope`), and pages and resources that do not declare support for workspaces are refused.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from asgiref.sync import iscoroutinefunction, sync_to_async
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponseBase
from django.urls import Resolver404, resolve
from django.utils.decorators import sync_and_async_middleware
from django.utils.translation import gettext as _t

from sessions_app.workspaces import roles, scope
from sessions_app.workspaces.models import McpWorkspace
from sessions_app.workspaces.scope import Scope

CHOSEN = "mcphub.workspace"
"""In a login's session: the workspace in which it acts."""
_PLACES = ("/admin/", "/api/")
_DOORS = ("/admin/login/", "/admin/logout/")
"""Where people come in and go out, whatever they see between."""

PAGES = {"password_change", "password_change_done", "jsi18n"}
"""Names of the console's addresses that know workspaces. The floors that have such pages add theirs."""


class OutsideWorkspace(PermissionDenied):
    """A page or a resource is about the whole hub. Its words are for the person."""


@dataclass(frozen=True, slots=True)
class Acting:
    """A person in one workspace."""

    workspace: McpWorkspace
    rights: frozenset[str]

    @property
    def scope(self) -> Scope:
        return Scope(self.workspace.pk, self.workspace.slug)


def acting_of(user: Any) -> Acting | None:
    """Return in which workspace a person of this request acts; None: in the whole hub."""
    return getattr(user, "acting", None)


def find(request: HttpRequest) -> Acting | None:
    """Return the workspace of a request, by its login's choice and the person's current rights."""
    user = getattr(request, "user", None)  # a host project may have no logins
    if user is None or not user.is_authenticated or not user.is_active:
        return None
    chosen = request.session.get(CHOSEN)
    if chosen is None and user.is_staff:
        return None
    offered = roles.open_to(user)
    if user.is_superuser and chosen is not None:
        offered = list(McpWorkspace._default_manager.filter(pk=chosen))
    found = next((each for each in offered if each.pk == chosen), None)
    if found is None and not user.is_staff and offered:
        found = offered[0]
    return None if found is None else Acting(found, roles.rights_in(user, found.pk))


def choose(request: HttpRequest, workspace: McpWorkspace | None) -> None:
    """Let a login act in a workspace from now on; None: in the whole hub."""
    if workspace is None:
        request.session.pop(CHOSEN, None)
    else:
        request.session[CHOSEN] = workspace.pk


def _enter(request: HttpRequest) -> None:
    """Find in which workspace the request acts, and narrow it; raise PermissionDenied for a page of the whole hub."""
    if not request.path_info.startswith(_PLACES) or request.path_info in _DOORS:
        return
    acting = find(request)
    if acting is None:
        return
    request.user.acting = acting  # type: ignore[union-attr]
    scope.narrow(acting.scope)
    if request.path_info.startswith("/admin/") and not _is_open(request):
        words = _t("This page covers the whole hub, and you are in the workspace %(workspace)s.")
        raise OutsideWorkspace(words % {"workspace": acting.workspace})


def _is_open(request: HttpRequest) -> bool:
    try:
        return resolve(request.path_info).url_name in PAGES
    except Resolver404:
        return True  # which is answered 404


@sync_and_async_middleware
def in_workspace(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: a request sees and changes rows of its person's current workspace."""
    if iscoroutinefunction(get_response):

        async def serve_async(request: HttpRequest) -> HttpResponseBase:
            with scope.acting_in(None):
                await sync_to_async(_enter)(request)
                answered: Awaitable[HttpResponseBase] = get_response(request)
                return await answered

        return serve_async

    def serve(request: HttpRequest) -> HttpResponseBase:
        with scope.acting_in(None):
            _enter(request)
            response: HttpResponseBase = get_response(request)
            return response

    return serve
