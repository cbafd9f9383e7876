"""The link from a failed call to its group."""

from __future__ import annotations

from django.http import HttpRequest
from django.urls import reverse

from invocations.models import McpToolInvocation
from mcphub.features.error_groups.models import ErrorGroup
from mcphub.features.error_groups.normalising import key_of, normalised


def group_of(request: HttpRequest, row: McpToolInvocation) -> str:
    """Return the page of the call's group; empty if the call has none yet, or the reader may not see it."""
    if not request.user.has_perm("invocations.view_errorgroup"):
        return ""
    tool = row.tool_name if row.tool_digest else ""
    error = row.error if isinstance(row.error, dict) else {}
    message = error.get("message")
    words = normalised(message) if tool and isinstance(message, str) else ""
    keys = [key_of(tool, row.error_code, words), key_of(tool, row.error_code, ""), key_of("", row.error_code, "")]
    found = dict(ErrorGroup.objects.filter(key__in=keys).values_list("key", "pk"))
    number = next((found[key] for key in keys if key in found), None)
    return "" if number is None else reverse("admin:invocations_errorgroup_change", args=[number])
