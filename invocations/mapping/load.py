"""Reads the error map that is in force."""

from __future__ import annotations

from invocations.mapping.error_map import ErrorMap, ErrorRule
from invocations.models import McpErrorMapping


def load_error_map() -> ErrorMap:
    columns = ("internal_code", "json_rpc_code", "message_template", "retryable", "data_schema")
    return ErrorMap(ErrorRule(*row) for row in McpErrorMapping.objects.values_list(*columns))
