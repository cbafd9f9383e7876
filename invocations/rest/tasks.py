"""REST over tasks, for auditors: read-only."""

from __future__ import annotations

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_view
from rest_framework import serializers

from invocations.lists.filters import TASK_FILTERS
from invocations.rest.reads import RecordedViewSet
from invocations.rest.serializers import ErrorBody, ObjectBody, sees_bodies
from invocations.tasks.models import McpTask
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import RowSerializer

_BODIES = ("result", "error", "input_requests", "input_responses")


class TaskSerializer(RowSerializer[McpTask]):
    """A call that runs in the background, as long as its result is kept."""

    sequence = serializers.IntegerField(source="id", read_only=True, help_text="Grows with every task.")
    session_id = serializers.CharField(read_only=True)
    process_id = serializers.CharField(read_only=True)
    result = ObjectBody()
    error = ErrorBody(help_text="The JSON-RPC error of a task that failed.")
    input_requests = ObjectBody(help_text="What the client was asked, by key.")
    input_responses = ObjectBody(help_text="What it answered, by key.")
    bodies_hidden = serializers.SerializerMethodField(
        help_text="True: result, error, questions and answers are withheld from you and read null."
    )

    class Meta:
        model = McpTask
        fields = [
            "sequence",
            "task_id",
            "invocation_id",
            "state",
            "message",
            "tool_name",
            "principal",
            "caller_label",
            "session_id",
            "process_id",
            "protocol_version",
            "result",
            "error",
            "input_requests",
            "input_responses",
            "ttl_ms",
            "poll_ms",
            "created_at",
            "updated_at",
            "finished_at",
            "expires_at",
            "bodies_hidden",
        ]
        read_only_fields = fields

    def get_bodies_hidden(self, task: McpTask) -> bool:
        return bool(self.context["hidden"])


@extend_schema_view(list=extend_schema(summary="Tasks, newest first"), retrieve=extend_schema(summary="One task"))
class TaskViewSet(RecordedViewSet[McpTask]):
    queryset = McpTask.objects.all()
    serializer_class = TaskSerializer
    filters = TASK_FILTERS
    ordering = ("-id",)
    lookup_field = "task_id"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "audit:read", "write": "audit:read"}
    required_permission = {"read": "invocations.view_mcptask", "write": "invocations.view_mcptask"}
    missing = "There is no such task, or its lifetime is over. GET /api/tasks/ lists them."

    def get_serializer_context(self) -> dict[str, object]:
        hidden = self.request is None or not sees_bodies(self.request)
        return {**super().get_serializer_context(), "hidden": hidden}

    def get_queryset(self) -> QuerySet[McpTask]:
        rows = super().get_queryset()
        return rows if sees_bodies(self.request) else rows.defer(*_BODIES)

    def bodies_read(self) -> list[str]:
        return list(_BODIES) if sees_bodies(self.request) else []
