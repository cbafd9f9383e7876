"""The person's calls that wait for approval, and the decision about those that the caller may approve."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from django.http import Http404, HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _

from invocations.redaction import load as redaction
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking, deciding
from mcphub.features.approvals.models import McpApproval
from mcphub.my_access.parts import DeedRefused, Part
from sessions_app.kit.shown import clipped, pretty, visible

_MOST = 50
_LONGEST_ARGUMENTS = 4_000


def _rows(request: HttpRequest) -> Mapping[str, object]:
    rows = asking.still_open(McpApproval.objects.filter(principal=f"user:{request.user.pk}"), timezone.now())
    groups = set(request.user.groups.values_list("name", flat=True))
    return {"approvals": [_line(row, groups) for row in rows.order_by("-created_at")[:_MOST]]}


def _line(row: McpApproval, groups: Collection[str]) -> dict[str, object]:
    return {
        "id": row.pk,
        "tool": row.tool_name,
        "words": row.words,
        "arguments": clipped(visible(pretty(row.arguments)), _LONGEST_ARGUMENTS),
        "client": clipped(row.client_name, 100),
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "is_own": not row.needs_another and (not row.group or row.group in groups),
        "group": row.group,
    }


def _approve(request: HttpRequest) -> str:
    row = _decide(request, approve=True)
    return _("You approved the call of %(tool)s. Your client can now send it again.") % {"tool": row.tool_name}


def _deny(request: HttpRequest) -> str:
    row = _decide(request, approve=False)
    return _("You denied the call of %(tool)s. It was not made.") % {"tool": row.tool_name}


def _decide(request: HttpRequest, *, approve: bool) -> McpApproval:
    named = request.POST.get("id", "")
    own = McpApproval.objects.filter(principal=f"user:{request.user.pk}")
    row = own.filter(pk=named).first() if named.isprintable() else None
    if row is None:
        raise Http404
    who, record = deciding.decider_of(request.user), RecordRedaction(redaction.load())
    try:
        return deciding.decide(row, deciding.Decision(approve=approve), who, record)
    except deciding.DecisionRefused as refusal:
        raise DeedRefused(str(refusal)) from refusal


PART = Part("approvals", "me/approvals.html", _rows, {"approve": _approve, "deny": _deny})
