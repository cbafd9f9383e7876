"""Access to approved tools: a toolset, chosen or created, and the resulting callers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from sessions_app.kit.shown import clipped
from tools_catalog.models import McpConnection, McpToolDefinition, McpToolset

NEEDED: Final = ("tools_catalog.add_mcptoolset", "tools_catalog.change_mcptoolset")
_MOST_NAMED: Final = 10
_ROW: Final = "admin:tools_catalog_mcpconnection_change"


class ShareForm(forms.Form):
    toolset = forms.ModelChoiceField(
        McpToolset.objects.all(),
        label=_("Toolset"),
        required=False,
        empty_label=_("a new one"),
        widget=UnfoldAdminSelectWidget,
    )
    slug = forms.CharField(
        label=_("name of the new toolset"),
        required=False,
        max_length=32,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("The last part of its address: /mcp/s/NAME"),
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if "toolset" not in cleaned or cleaned["toolset"] is not None:
            return cleaned
        fresh = McpToolset(slug=cleaned.get("slug") or "")
        try:
            fresh.full_clean()
        except ValidationError as error:
            self.add_error("slug", [each for told in error.message_dict.values() for each in told])
        return {**cleaned, "toolset": fresh}


def tools_of(rows: Sequence[McpConnection]) -> list[McpToolDefinition]:
    """Return the tools that are served of these connections."""
    served = McpToolDefinition.objects.filter(upstream_tool__connection__in=rows, enabled=True)
    return list(served.order_by("name"))


def share(request: HttpRequest, rows: Sequence[McpConnection]) -> ShareForm | None:
    """Put the tools of the connections into the toolset that the request names; give the form where it is wrong."""
    if not request.user.has_perms(NEEDED):
        raise PermissionDenied
    form = ShareForm(request.POST)
    if not form.is_valid():
        return form
    toolset, tools = form.cleaned_data["toolset"], tools_of(rows)
    with transaction.atomic():
        if toolset.pk is None:
            toolset.save()
        chosen = toolset.add_tools(tools)
    count = sum(tool.pk in chosen for tool in tools)
    done = ngettext("%(count)d tool is in %(name)s.", "%(count)d tools are in %(name)s.", count)
    messages.success(request, done % {"count": count, "name": toolset.slug})
    return None


def shown(request: HttpRequest, rows: Sequence[McpConnection], form: ShareForm | None) -> dict[str, Any] | None:
    """Return the page's text about access to the tools; None while nothing is enabled."""
    tools = tools_of(rows)
    if not tools:
        return None
    toolsets = McpToolset.objects.filter(enabled=True, tools__in=tools).distinct()
    return {
        "tools": [clipped(tool.name, 64) for tool in tools[:_MOST_NAMED]],
        "others": max(0, len(tools) - _MOST_NAMED),
        "groups": [
            (row.slug, ", ".join(group.name for group in row.groups.all()), reverse(_ROW, args=[row.pk]))
            for row in rows
        ],
        "toolsets": [(toolset.slug, toolset.path) for toolset in toolsets],
        "form": (form or ShareForm()) if request.user.has_perms(NEEDED) else None,
        "connect": reverse("connect"),
    }
