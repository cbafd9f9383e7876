"""Where SCIM is served, with and without a last slash."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponseBase
from django.urls import URLPattern, path, re_path
from django.views.decorators.csrf import csrf_exempt


def _served(name: str) -> Any:
    """Return a view that is imported when it is first asked for: a hub without a directory pays nothing for SCIM."""

    @csrf_exempt
    def serve(request: HttpRequest, **kwargs: Any) -> HttpResponseBase:
        from mcphub.features.scim import views

        answer: HttpResponseBase = getattr(views, name).as_view()(request, **kwargs)
        return answer

    serve.__name__ = name.lower()
    return serve


_ROUTES = {
    "Users": "ScimUsers",
    "Users/.search": "ScimUsersFound",
    "Users/<str:number>": "ScimUser",
    "Groups": "ScimGroups",
    "Groups/.search": "ScimGroupsFound",
    "Groups/<str:number>": "ScimGroup",
    "ServiceProviderConfig": "ScimConfiguration",
    "ResourceTypes": "ScimTypes",
    "ResourceTypes/<str:name>": "ScimTypes",
    "Schemas": "ScimSchemas",
    "Schemas/<str:name>": "ScimSchemas",
}

urlpatterns: list[URLPattern] = [
    *(path(f"{route}{slash}", _served(name)) for route, name in _ROUTES.items() for slash in ("", "/")),
    re_path(r"", _served("ScimUnknown")),
]
