"""Makes a recorded call again: a new call of whoever asks, linked to the first. The console makes it likewise."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from asgiref.sync import async_to_sync
from django.http import Http404
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.call.repeats import as_error
from invocations.call_source import CallSource
from invocations.calling import IDEMPOTENCY_KEY
from invocations.exchange import CallRequest
from invocations.models import McpToolInvocation
from invocations.rest import reads
from invocations.rest.serializers import ErrorBody, ObjectBody, sees_bodies
from mcphub.features.replay import rules as replay
from sessions_app import transports
from sessions_app.caller import Caller, caller_of, caller_of_key
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.json_fields import JSONValue
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, RowViewSet, StrictBoolean, StrictText
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import (
    DuplicateRequest,
    Forbidden,
    HubError,
    InvalidParams,
    QuotaReached,
    RateLimited,
    ServerBusy,
    ToolFailure,
)
from sessions_app.protocol.json import Json
from sessions_app.rest.access import is_granted
from tools_catalog.catalog.selection import Selection, Tool
from tools_catalog.catalog.snapshot import Catalog

PERMISSION = "invocations.replay_call"
SCOPE = "calls:replay"
_CLIENT = "MCP Hub replay"
_NOT_ADMITTED = (Forbidden, RateLimited, QuotaReached, ServerBusy)
"""Refusals that are about whoever asks, not about the call."""


class ReplayPlan:
    """One replay that may be made: the tool in the version that was chosen, and the arguments."""

    def __init__(self, row: McpToolInvocation, caller: Caller, version: str = "") -> None:
        """Raises HubError where it cannot be made; `version` is that of the recorded call if empty."""
        self.row = row
        self.caller = caller
        self.arguments = replay.arguments_of(row)
        self.tool: Tool = Catalog.load_version(row.tool_name, version or row.tool_version, caller)

    def violations(self) -> list[dict[str, Json]]:
        """Return the violations of the chosen version's schema by the arguments; empty if they are valid."""
        if self.tool.arguments.is_valid(self.arguments):
            return []
        return self.tool.arguments.explain(self.arguments).violations

    def make(self, transport: str, key: str | None = None) -> McpToolInvocation | None:
        """Make the call, once under an idempotency key; give its row, or None where it was refused in a flood.

        Raises HubError: no row was made, the caller may not call or not now, or the key stands for another replay.
        """
        rows = McpToolInvocation.objects
        made = rows.filter(invocation_id=async_to_sync(self._call)(transport, key)).first()
        if made is not None and made.duplicate_of:
            first = rows.filter(invocation_id=made.duplicate_of).first()
            is_mine = first is None or (first.replay_of, first.tool_version) == (
                self.row.invocation_id,
                self.tool.version,
            )
            if made.error_code == DuplicateRequest.code:
                raise as_error(made)
            if not is_mine:
                raise DuplicateRequest(first=made.duplicate_of)
        return made

    async def _call(self, transport: str, key: str | None) -> str:
        from mcphub.process import runtime

        hub = await runtime.ensure()
        session = await hub.sessions.implicit(self.caller, transport=transport, client_name=_CLIENT, client_version="")
        source = CallSource(
            caller=self.caller,
            session_id=session,
            transport=transport,
            client_name=_CLIENT,
            replay_of=self.row.invocation_id,
        )
        try:
            request = CallRequest(
                name=self.tool.name, arguments=self.arguments, idempotency_key=key, selection=Selection([self.tool])
            )
            made = await hub.calls.call_tool(request, hub.calls.exchange(source))
        except ToolFailure as error:
            return error.invocation_id
        except HubError as error:
            if not error.invocation_id or isinstance(error, _NOT_ADMITTED):
                raise
            return error.invocation_id
        return made.invocation_id


class ReplayRequestSerializer(AskedSerializer):
    """How to make the call again."""

    version = StrictText(
        required=False, max_length=20, help_text="Of the tool; if absent the one that the recorded call ran."
    )
    dry_run = StrictBoolean(required=False, default=False, help_text="Validate only; nothing is called.")
    confirm = StrictBoolean(
        required=False, default=False, help_text="True for a tool that is not read-only: its effect comes again."
    )


class DifferenceSerializer(serializers.Serializer[Any]):
    """One place where the outcomes differ."""

    path = serializers.CharField()
    kind = serializers.ChoiceField(choices=["added", "removed", "changed"])
    original = JSONValue()
    replay = JSONValue()


class ViolationSerializer(serializers.Serializer[Any]):
    """A violation of the chosen version's schema by the arguments."""

    path = serializers.CharField(help_text="JSON pointer.")
    message = serializers.CharField()


class ReplaySerializer(serializers.Serializer[Any]):
    """The outcome of a replay."""

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
        summary="Make a recorded call again",
        request=ReplayRequestSerializer,
        responses=ReplaySerializer,
        description="Makes a new call of whoever asks, under today's rules, with the recorded arguments. A tool that "
        f"is not read-only needs the scope `{SCOPE}` or the permission `{PERMISSION}`, and `confirm`.",
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                {"type": "string", "pattern": "^[!-~]{1,255}$"},
                location=OpenApiParameter.HEADER,
                description="A retry with the same key is answered what the first was, and nothing runs again.",
            )
        ],
    )
    def replay(self, request: Request, invocation_id: str) -> Response:
        asked = ReplayRequestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted, key = asked.validated_data, _key(request)
        if not sees_bodies(request):
            raise Forbidden("You may not read bodies, so not make calls again.", permission="invocations.read_bodies")
        if "\0" in invocation_id:
            raise Http404
        row = self.get_object()
        try:
            plan = ReplayPlan(row, _caller(request), wanted.get("version", ""))
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
                        scope=SCOPE,
                        permission=PERMISSION,
                    )
                if not wanted["confirm"]:
                    raise Conflict(
                        f"{plan.tool.name} is not read-only: its effect would come again. Send confirm: true if that "
                        "is meant.",
                        confirm=False,
                    )
            try:
                made = plan.make(transports.REST.name, key)
            except DuplicateRequest as error:
                raise Conflict(error.message, **error.details) from error
        return Response(replayed(plan, made, violations, wanted["dry_run"]))


def replayed(
    plan: ReplayPlan, made: McpToolInvocation | None, violations: list[dict[str, Json]], dry_run: bool
) -> dict[str, Json]:
    answer: dict[str, Any] = {
        "replay_of": plan.row.invocation_id,
        "tool_name": plan.tool.name,
        "tool_version": plan.tool.version,
        "dry_run": dry_run,
        "valid": not violations,
        "violations": [{"path": each["path"], "message": each["message"]} for each in violations],
        "invocation_id": None,
        "duplicate_of": None,
        "status": None,
        "result": None,
        "error": None,
        "same": None,
        "difference": None,
    }
    if made is not None:
        answer |= {
            "invocation_id": made.invocation_id,
            "duplicate_of": made.duplicate_of or None,
            "status": made.status,
            "result": made.result,
            "error": made.error,
        }
        if replay.is_comparable(plan.row) and replay.is_comparable(made):
            found = replay.differences(replay.outcome(plan.row), replay.outcome(made))
            answer |= {"same": not found, "difference": [asdict(each) for each in found]}
    return answer


def _key(request: Request) -> str | None:
    """Return the client's idempotency key, if it sent one, or raise ValidationError."""
    key: str | None = request.headers.get("Idempotency-Key")
    if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
        raise serializers.ValidationError({"Idempotency-Key": ["Send 1 to 255 visible ASCII characters, as a UUID."]})
    return key


def _caller(request: Request) -> Caller:
    if not isinstance(request.auth, ApiKey):
        return caller_of(request.user)
    return caller_of_key(request.auth)
