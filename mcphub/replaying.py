"""Makes a recorded call again, over REST and in the admin: a new call of whoever asks, linked to the first."""

from __future__ import annotations

import uuid
from dataclasses import asdict
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from invocations import replay
from invocations.calling import IDEMPOTENCY_KEY
from invocations.models import McpToolInvocation
from invocations.origin import Origin
from invocations.rest import reads
from invocations.rest.serializers import ErrorBody, ObjectBody, sees_bodies
from mcphub.tryit import caller_of
from sessions_app.caller import Caller
from sessions_app.models import ApiKey, Transport
from sessions_app.protocol.errors import DuplicateRequest, Forbidden, HubError, InvalidParams, ToolFailure
from sessions_app.rest.access import is_granted
from sessions_app.rest.errors import Conflict
from sessions_app.rest.writing import JSONValue, RowViewSet, StrictBoolean, StrictText
from sessions_app.shown import clipped, visible
from tools_catalog.admin_difference import difference
from tools_catalog.catalog import Catalog
from tools_catalog.models import McpToolVersion
from tools_catalog.selection import Selection, Tool

PERMISSION = "invocations.replay_call"
SCOPE = "calls:replay"
_CLIENT = "MCP Hub replay"


class Plan:
    """One replay that may be made: the tool in the version that was chosen, and the arguments."""

    def __init__(self, row: McpToolInvocation, caller: Caller, version: str = "") -> None:
        """Raises HubError where it cannot be made; `version` is that of the recorded call if empty."""
        self.row = row
        self.caller = caller
        self.arguments = replay.arguments_of(row)
        self.tool: Tool = Catalog.load_version(row.tool_name, version or row.tool_version, caller)

    def violations(self) -> list[dict[str, Any]]:
        """Give what is wrong with the arguments under the chosen version; nothing: they are valid."""
        if self.tool.arguments.is_valid(self.arguments):
            return []
        return self.tool.arguments.explain(self.arguments).violations

    def make(self, transport: str, key: str | None = None) -> McpToolInvocation | None:
        """Make the call, once under an idempotency key; give its row, or None where it was refused in a flood.

        Raises HubError: no row was made, or the key stands for another replay.
        """
        rows = McpToolInvocation.objects
        made = rows.filter(invocation_id=async_to_sync(self._call)(transport, key)).first()
        if made is not None and made.duplicate_of:
            first = rows.filter(invocation_id=made.duplicate_of).first()
            is_mine = first is None or (first.replay_of, first.tool_version) == (
                self.row.invocation_id,
                self.tool.version,
            )
            if not is_mine or made.error_code == DuplicateRequest.code:
                raise DuplicateRequest(first=made.duplicate_of)
        return made

    async def _call(self, transport: str, key: str | None) -> str:
        from mcphub import runtime

        hub = await runtime.ensure()
        session = await hub.sessions.implicit(
            self.caller, transport=transport, client_name=_CLIENT, client_version=""
        )  # fmt: skip
        origin = Origin(
            caller=self.caller, session_id=session, transport=transport, client_name=_CLIENT,
            replay_of=self.row.invocation_id,
        )  # fmt: skip
        try:
            made = await hub.calls.call_tool(
                origin, self.tool.name, self.arguments, idempotency_key=key, selection=Selection([self.tool])
            )  # fmt: skip
        except ToolFailure as error:
            return error.invocation_id
        except HubError as error:
            if not error.invocation_id:
                raise
            return error.invocation_id
        return made.invocation_id


class ReplayRequestSerializer(serializers.Serializer[Any]):
    """How to make the call again."""

    version = StrictText(
        required=False, max_length=20, help_text="Of the tool; if absent the one that the recorded call ran."
    )
    dry_run = StrictBoolean(required=False, default=False, help_text="Validate only; nothing is called.")
    confirm = StrictBoolean(
        required=False, default=False, help_text="True for a tool that is not read-only: its effect comes again."
    )

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := data.keys() - self.fields.keys()):
            raise serializers.ValidationError({name: ["Unknown field."] for name in unknown})
        return super().to_internal_value(data)


class DifferenceSerializer(serializers.Serializer[Any]):
    """One place where the outcomes differ."""

    path = serializers.CharField()
    kind = serializers.ChoiceField(choices=["added", "removed", "changed"])
    original = JSONValue()
    replay = JSONValue()


class ViolationSerializer(serializers.Serializer[Any]):
    """What is wrong with the arguments under the chosen version."""

    path = serializers.CharField(help_text="JSON pointer.")
    message = serializers.CharField()


class ReplaySerializer(serializers.Serializer[Any]):
    """What making a recorded call again came to."""

    replay_of = serializers.CharField()
    tool_name = serializers.CharField()
    tool_version = serializers.CharField()
    dry_run = serializers.BooleanField()
    valid = serializers.BooleanField(help_text="Whether the arguments are valid under this version.")
    violations = ViolationSerializer(many=True)
    invocation_id = serializers.CharField(allow_null=True, help_text="Of the new call; null where none was made.")
    duplicate_of = serializers.CharField(
        allow_null=True, help_text="The first replay under this idempotency key, whose outcome this is; null: it is it."
    )
    status = serializers.ChoiceField(choices=McpToolInvocation.Status.choices, allow_null=True)
    result = ObjectBody()
    error = ErrorBody()
    same = serializers.BooleanField(
        allow_null=True, help_text="Whether the outcomes are the same; null where one is not on record whole."
    )
    difference = DifferenceSerializer(
        many=True, allow_null=True, help_text=f"Of many the first {replay.MOST_DIFFERENCES}."
    )


class ReplayViewSet(RowViewSet[McpToolInvocation]):
    queryset = McpToolInvocation.objects.all()
    serializer_class = ReplaySerializer
    lookup_field = "invocation_id"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {"read": "invocations.read_bodies", "write": "invocations.read_bodies"}
    missing = "There is no such call. GET /api/invocations/ lists them."

    @extend_schema(
        summary="Make a recorded call again", request=ReplayRequestSerializer, responses=ReplaySerializer,
        description="Makes a new call of whoever asks, under today's rules, with the recorded arguments. A tool that "
        f"is not read-only needs the scope `{SCOPE}` or the permission `{PERMISSION}`, and `confirm`.",
        parameters=[
            OpenApiParameter(
                "Idempotency-Key", {"type": "string", "pattern": "^[!-~]{1,255}$"}, location=OpenApiParameter.HEADER,
                description="A retry with the same key is answered what the first was, and nothing runs again.",
            )
        ],
    )  # fmt: skip
    def replay(self, request: Request, invocation_id: str) -> Response:
        asked = ReplayRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted = asked.validated_data
        if not sees_bodies(request):
            raise Forbidden("You may not read bodies, so not make calls again.", permission="invocations.read_bodies")
        if "\0" in invocation_id:
            raise Http404
        row = self.get_object()
        try:
            plan = Plan(row, _caller(request), wanted.get("version", ""))
        except InvalidParams as error:
            raise Conflict(error.message, **error.details) from error
        violations = plan.violations()
        reads.record(
            request, read=["arguments", "result", "error"], searched=[], rows=[row.pk], subject=row.invocation_id
        )
        made = None
        if not wanted["dry_run"]:
            if not plan.tool.read_only:
                if not is_granted(request, scope=SCOPE, permission=PERMISSION):
                    raise Forbidden(
                        f"{plan.tool.name} is not read-only. Making its calls again needs {SCOPE}, or the permission "
                        f"{PERMISSION}. Ask an administrator.",
                        scope=SCOPE, permission=PERMISSION,
                    )  # fmt: skip
                if not wanted["confirm"]:
                    raise Conflict(
                        f"{plan.tool.name} is not read-only: its effect would come again. Send confirm: true if that "
                        "is meant.",
                        confirm=False,
                    )  # fmt: skip
            try:
                made = plan.make(Transport.REST.value, _key(request))
            except DuplicateRequest as error:
                raise Conflict(error.message, **error.details) from error
        return Response(_told(plan, made, violations, wanted["dry_run"]))


def _told(
    plan: Plan, made: McpToolInvocation | None, violations: list[dict[str, Any]], dry_run: bool
) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "replay_of": plan.row.invocation_id, "tool_name": plan.tool.name, "tool_version": plan.tool.version,
        "dry_run": dry_run, "valid": not violations,
        "violations": [{"path": each["path"], "message": each["message"]} for each in violations],
        "invocation_id": None, "duplicate_of": None, "status": None, "result": None, "error": None, "same": None,
        "difference": None,
    }  # fmt: skip
    if made is not None:
        answer |= {
            "invocation_id": made.invocation_id, "duplicate_of": made.duplicate_of or None, "status": made.status,
            "result": made.result, "error": made.error,
        }  # fmt: skip
        if replay.is_comparable(plan.row) and replay.is_comparable(made):
            found = replay.differences(replay.outcome(plan.row), replay.outcome(made))
            answer |= {"same": not found, "difference": [asdict(each) for each in found]}
    return answer


def _key(request: Request) -> str | None:
    """Give the client's idempotency key, if it sent one, or raise ValidationError."""
    key: str | None = request.headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise serializers.ValidationError({"Idempotency-Key": ["Send 1 to 255 visible ASCII characters, as a UUID."]})
    return key


def _caller(request: Request) -> Caller:
    if not isinstance(request.auth, ApiKey):
        return caller_of(request.user)
    key = request.auth
    return Caller(
        principal=f"key:{key.pk}", label=key.name, scopes=frozenset(key.scopes), key_id=key.pk,
        groups=frozenset(key.groups.values_list("pk", flat=True)), calls_per_minute=key.calls_per_minute,
    )  # fmt: skip


# The page of the admin ---------------------------------------------------------------------------------


def replay_view(request: HttpRequest, pk: int) -> HttpResponse:
    """Choose a version, see whether it takes the arguments, and make the call; then both outcomes side by side."""
    may = request.user.has_perm("invocations.view_mcptoolinvocation") and request.user.has_perm(
        "invocations.read_bodies"
    )  # fmt: skip
    if not may:
        raise PermissionDenied
    row = get_object_or_404(McpToolInvocation, pk=pk)
    versions = list(
        McpToolVersion.objects.filter(tool__name=row.tool_name).values_list("version", flat=True)[:500]
    )  # fmt: skip
    version = request.POST.get("version") or row.tool_version
    agreed = "agreed" in request.POST
    once = request.POST.get("once", "")
    if not IDEMPOTENCY_KEY.fullmatch(once):
        once = _once()
    context: dict[str, Any] = {
        **admin.site.each_context(request), "opts": McpToolInvocation._meta, "object": row, "title": _("Replay"),
        "row": row, "tool_name": clipped(row.tool_name, 64), "versions": versions, "version": version, "agreed": agreed,
        "once": once,
        "back": reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
    }  # fmt: skip
    try:
        plan = Plan(row, caller_of(request.user), version)
        context["violations"] = [f"{each['path']} {each['message']}" for each in plan.violations()]
        context["is_read_only"] = plan.tool.read_only
        context["may_make"] = plan.tool.read_only or request.user.has_perm(PERMISSION)
        reads.note(request.user, "/admin/replay", ["arguments", "result", "error"], [row.pk], row.invocation_id)
        if request.method == "POST" and "make" in request.POST:
            if not context["may_make"]:
                raise PermissionDenied
            context["not_agreed"] = not plan.tool.read_only and not agreed
            made = None if context["not_agreed"] else plan.make(Transport.ADMIN.value, context["once"])
            if made is not None:
                told = _told(plan, made, [], False)
                context |= {"made": made, "same": told["same"], "once": _once()}
                context["made_link"] = reverse("admin:invocations_mcptoolinvocation_change", args=[made.pk])
                if told["same"] is False:
                    context["fields"] = difference(replay.outcome(row), replay.outcome(made))
    except HubError as error:
        context["refusal"] = visible(error)
    return TemplateResponse(request, "admin/hub/replay.html", context)


def _once() -> str:
    """Give the idempotency key of a form, so that a form that is sent twice makes one call."""
    return f"replay:{uuid.uuid4()}"


urlpatterns = [
    path(
        "invocations/mcptoolinvocation/<int:pk>/replay/", admin.site.admin_view(replay_view), name="invocation_replay"
    ),
]
