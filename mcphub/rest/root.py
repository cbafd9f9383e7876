"""`/api/`: what there is over REST for whoever asks, each with its address and one sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.urls import resolve
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from mcphub.rest.pages import PageRenderer
from sessions_app.models import ApiKey
from sessions_app.rest.access import may_read

ABOUT: Mapping[str, Promise] = {
    "invocations": _("Every recorded call, newest first, with filters, facets and statistics."),
    "errors": _("Failed calls in groups that are alike."),
    "sessions": _("Sessions of clients: who is connected, and who was."),
    "tasks": _("Calls that their clients follow in the background."),
    "processes": _("The processes of the hub, with their transports and last errors."),
    "approvals": _("Calls that wait for a person's yes, and what was decided."),
    "offers": _("What upstreams offer, and what was approved of it."),
    "waiting-changes": _("Edits that wait for a second person."),
    "notices": _("What people were told of."),
    "notice-deliveries": _("Notices on their way to subscriptions, and those that were given up."),
    "tool-definitions": _("The tools of the catalogue, with their versions."),
    "toolsets": _("Choices of tools at addresses of their own."),
    "resources": _("The resources of the catalogue."),
    "prompts": _("The prompts of the catalogue."),
    "connections": _("Connections to other MCP servers, and how each stands."),
    "accounts": _("Accounts as which the hub is at upstreams and APIs."),
    "services": _("Addresses and credentials that HTTP tools share."),
    "secrets": _("Secrets by name, never with their values."),
    "launch-profiles": _("What the hub may run as child processes."),
    "keys": _("API keys without their texts."),
    "workspaces": _("Teams with tools, keys, rules and calls of their own."),
    "people": _("People of the hub: who may come in, and in which groups they are."),
    "groups": _("Groups of people: roles of the console, and whose tools are whose."),
    "policy-rules": _("Rules about calls: what they deny, ask about and allow."),
    "guardrails": _("What is looked for in arguments and results, and what is done about it."),
    "quotas": _("How much may be called, and how much is used."),
    "redaction-rules": _("What is taken out of calls before they are recorded."),
    "providers": _("Providers of models, without their keys."),
    "models": _("Models of providers, and what each can do."),
    "model-prices": _("What models cost."),
    "error-mappings": _("What clients are told for each internal error code."),
    "saved-views": _("Lists of the console as people saved them: one's own, and those that are shared."),
    "audit/events": _("The sealed history of edits."),
    "audit/checkpoints": _("Signed states of the audit."),
    "audit/verifications": _("When the audit was verified, and what was found."),
    "audit/shipping": _("Places outside that get the audit, and how far each is."),
    "audit/holds": _("Legal holds: parts of the audit that retention leaves alone."),
    "audit/retention": _("How long the audit is kept."),
    "audit/export": _("The audit as one file, to download."),
    "query": _("Asks a model that may use the hub's tools."),
    "session": _("Begins a conversation with a model."),
    "tools": _("The tools that the key may use in a chat."),
    "health": _("How the chat and its providers are."),
}
"""Address below `/api/` -> what is there."""
OF_CHAT: Mapping[str, str] = {"query": "chat", "session": "chat", "tools": "tools:list", "health": ""}
"""Addresses that are no views -> the scope that a key needs; people have none of them."""
_PEOPLE_ONLY = frozenset({"groups", "launch-profiles", "people", "saved-views"})


class ListedSerializer(serializers.Serializer[Any]):
    """One thing that REST has."""

    name = serializers.CharField(help_text="Its address below `/api/`.")
    address = serializers.CharField(help_text="Where it is.")
    about = serializers.CharField(help_text="One sentence about it, in English.")


class RootSerializer(serializers.Serializer[Any]):
    """What there is for whoever asks."""

    document = serializers.CharField(help_text="Where the OpenAPI document is.")
    docs = serializers.CharField(help_text="Where a page shows that document.")
    resources = ListedSerializer(many=True, help_text="Those that the key, or the person, may read.")


class RootView(APIView):
    """The list names what the key or the person may read, as the map of the console does, and nothing else."""

    permission_classes = (IsAuthenticated,)

    @extend_schema(operation_id="root", tags=["root"], summary="What there is", responses=RootSerializer)
    def get(self, request: Request) -> Response:
        if isinstance(getattr(request, "accepted_renderer", None), PageRenderer):
            return self._answer(request)
        with override("en"):  # what programs read is in one language
            return self._answer(request)

    def _answer(self, request: Request) -> Response:
        resources = [
            {"name": name, "address": _at(request, f"{name}/"), "about": str(ABOUT[name])}
            for name in self._readable(request)
        ]
        answer = {"document": _at(request, "schema"), "docs": _at(request, "docs"), "resources": resources}
        return Response(answer, headers={"Cache-Control": "private, no-store"})

    def _readable(self, request: Request) -> Iterator[str]:
        key: ApiKey | None = request.auth if isinstance(request.auth, ApiKey) else None
        for name in ABOUT:
            if name in OF_CHAT:
                if key is not None and (not OF_CHAT[name] or OF_CHAT[name] in key.scopes):
                    yield name
            elif not (key is not None and name in _PEOPLE_ONLY) and may_read(request, view_of(name)):
                yield name


def view_of(name: str) -> Any:
    """Give the class of the view at an address below `/api/`; raise Resolver404."""
    view: Any = resolve(f"/api/{name}/").func
    return view.cls


def _at(request: Request, path: str) -> str:
    return str(request.build_absolute_uri(f"/api/{path}"))
