"""`/api/`: the resources available to the caller, each with its address and one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.urls import resolve, reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.parts import RestEndpoint, RestResource
from mcphub.rest.pages import PageRenderer
from sessions_app.kit.features import declared
from sessions_app.kit.rest.base import HubView
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.models import ApiKey
from sessions_app.rest.access import may_read

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

_CORE: Mapping[str, _StrOrPromise] = {
    "invocations": _("Every recorded call, newest first, with filters, facets and statistics."),
    "sessions": _("Client sessions, current and past."),
    "tasks": _("Calls that their clients follow in the background."),
    "processes": _("Processes of the hub, with their transports and last errors."),
    "offers": _("Definitions that upstreams offer, and decisions about them."),
    "waiting-changes": _("Changes that wait for a second person."),
    "tool-definitions": _("The tools of the catalogue, with their versions."),
    "toolsets": _("Selections of tools at their own addresses."),
    "resources": _("The resources of the catalogue."),
    "prompts": _("The prompts of the catalogue."),
    "connections": _("Connections to other MCP servers, and their status."),
    "accounts": _("The hub's accounts at upstreams and APIs."),
    "services": _("Addresses and credentials that HTTP tools share."),
    "allowed-hosts": _("Hosts outside the public internet that the hub can reach."),
    "secrets": _("Secrets by name, without their values."),
    "launch-profiles": _("Commands that the hub can run as child processes."),
    "keys": _("API keys, without the keys themselves."),
    "workspaces": _("Teams with their own tools, keys, rules and calls."),
    "people": _("People of the hub, and their groups."),
    "groups": _("Groups of people: console roles and access to tools."),
    "redaction-rules": _("Redaction rules, which remove values from calls before they are recorded."),
    "error-mappings": _("Responses to clients for each internal error code."),
    "saved-views": _("Saved console lists: your own and shared ones."),
    "audit/events": _("The sealed history of edits."),
    "audit/checkpoints": _("Signed checkpoints of the audit log."),
    "audit/verifications": _("Verifications of the audit log, and their results."),
    "audit/holds": _("Legal holds: parts of the audit log exempt from retention."),
    "audit/retention": _("Retention of the audit log."),
    "audit/export": _("The audit log as one file, to download."),
}
"""Address below `/api/` -> its description, without features' additions."""
OF_CONSOLE = frozenset({"groups", "people", "saved-views"})
"""Resources that a host project has in its own admin, or not at all."""
_PEOPLE_ONLY = frozenset({"groups", "launch-profiles", "people", "saved-views"})


def endpoints() -> dict[str, RestEndpoint]:
    """Return the addresses that are no views, by name. People have none of them."""
    return {each.name: each for each in declared(RestEndpoint)}


def about() -> dict[str, _StrOrPromise]:
    """Return address below `/api/` -> its description."""
    core = {name: words for name, words in _CORE.items() if not (settings.MCPHUB_EMBEDDED and name in OF_CONSOLE)}
    rows = {each.prefix: each.about for each in declared(RestResource)}
    return {**core, **rows, **{name: each.about for name, each in endpoints().items()}}


class ListedSerializer(serializers.Serializer[Any]):
    """One thing that REST has."""

    name = serializers.CharField(help_text="Its address below `/api/`.")
    address = serializers.CharField(help_text="Where it is.")
    about = serializers.CharField(help_text="One sentence about it, in English.")


class RootSerializer(serializers.Serializer[Any]):
    """The resources available to the caller."""

    document = serializers.CharField(help_text="Where the OpenAPI document is.")
    docs = serializers.CharField(help_text="Where a page shows that document.")
    resources = ListedSerializer(many=True, help_text="Those that the key, or the person, may read.")


class RootView(HubView):
    """The list contains the resources that the key or the person may read, as the console's map does, and nothing
    else.
    """

    permission_classes = (IsAuthenticated,)

    @extend_schema(operation_id="root", tags=["root"], summary="What there is", responses=RootSerializer)
    def get(self, request: Request) -> Response:
        if isinstance(getattr(request, "accepted_renderer", None), PageRenderer):
            return self._answer(request)
        with override("en"):  # what programs read is in one language
            return self._answer(request)

    def _answer(self, request: Request) -> Response:
        resources = [
            {"name": name, "address": _at(request, f"{name}/"), "about": str(words)}
            for name, words in self._readable(request)
        ]
        answer = {"document": _at(request, "schema"), "docs": _at(request, "docs"), "resources": resources}
        return Response(answer, headers={"Cache-Control": "private, no-store"})

    def _readable(self, request: Request) -> Iterator[tuple[str, _StrOrPromise]]:
        key: ApiKey | None = request.auth if isinstance(request.auth, ApiKey) else None
        served = endpoints()
        for name, words in about().items():
            if name in served:
                if key is not None and (not served[name].scope or served[name].scope in key.scopes):
                    yield name, words
            elif not (key is not None and name in _PEOPLE_ONLY) and may_read(request, view_of(name)):
                yield name, words


def view_of(name: str) -> Any:
    """Return the class of the view at an address below `/api/`; raise Resolver404."""
    view: Any = resolve(f"/api/{name}/").func
    return view.cls


def _at(request: Request, path: str) -> str:
    return str(request.build_absolute_uri(reverse("api-root") + path))
