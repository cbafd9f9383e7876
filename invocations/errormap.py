"""Reads the error map that is in force."""

from __future__ import annotations

from invocations.mapping import ErrorMap, Rule
from invocations.models import McpErrorMapping


def load() -> ErrorMap:
    columns = ("internal_code", "json_rpc_code", "message_template", "retryable", "data_schema")
    return ErrorMap(Rule(*row) for row in McpErrorMapping.objects.values_list(*columns))
