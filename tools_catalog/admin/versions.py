"""Versions of a tool: the list, the difference of two, and making an old one current again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import messages
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.difference import difference
from sessions_app.kit.shown import clipped, pretty
from tools_catalog.models import McpToolDefinition, McpToolVersion

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin as _Pages
else:
    _Pages = object

_MOST_VERSIONS = 500


class VersionPages(_Pages):
    """The three pages, for the admin of tools."""

    def versions_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        tool = self._tool(request, pk)
        versions = tool.versions.defer("definition")[:_MOST_VERSIONS]
        return self._page(request, "admin/hub/versions.html", tool, _t("Versions"), versions=versions)

    def difference_view(self, request: HttpRequest, pk: int, number: str) -> HttpResponse:
        tool = self._tool(request, pk)
        version = get_object_or_404(McpToolVersion, tool=tool, version=number)
        against = self._against(request, tool, version)
        left, right = (against, version) if against is None or against.pk < version.pk else (version, against)
        return self._page(
            request,
            "admin/hub/difference.html",
            tool,
            _t("Version %(number)s") % {"number": clipped(number, 20)},
            version=version,
            against=against,
            left=left,
            right=right,
            definition=pretty(version.definition),
            fields=difference(left.definition if left else {}, right.definition) if against else [],
            others=[v for v in tool.versions.defer("definition")[:_MOST_VERSIONS] if v.pk != version.pk],
            can_restore=self.has_change_permission(request, tool) and version.version != tool.version,
        )

    def restore_view(self, request: HttpRequest, pk: int, number: str) -> HttpResponse:
        tool = self._tool(request, pk)
        if not self.has_change_permission(request, tool):
            raise PermissionDenied
        version = get_object_or_404(McpToolVersion, tool=tool, version=number)
        back = reverse("admin:tool_version", args=[pk, number])
        page = self.confirmation(
            request,
            title=_t("Restore version %(number)s?") % {"number": version.version},
            items=[(clipped(tool.name, 64), _t("now version %(number)s") % {"number": tool.version})],
            explanation=_t(
                "Its texts and settings become a new version, which clients see immediately. No version is "
                "lost, so you can undo this the same way."
            ),
            button=_t("Restore"),
            back=back,
            reason=True,
        )
        if page is not None:
            return page
        tool.change_author = request.user
        reason = request.POST.get("reason", "").strip()
        tool.change_reason = reason or _t("Restored version %(number)s") % {"number": version.version}
        try:
            tool.restore(version)
        except ValidationError as error:
            for sentence in error.messages:
                self.message_user(request, sentence, messages.ERROR)
            return redirect(back)
        done = _t("Version %(old)s is current again, as version %(new)s.")
        self.message_user(request, done % {"old": version.version, "new": tool.version}, messages.SUCCESS)
        return redirect("admin:tool_versions", pk=pk)

    def _tool(self, request: HttpRequest, pk: int) -> McpToolDefinition:
        tool = get_object_or_404(McpToolDefinition, pk=pk)
        if not self.has_view_permission(request, tool):
            raise PermissionDenied
        return tool

    def _against(self, request: HttpRequest, tool: McpToolDefinition, version: McpToolVersion) -> McpToolVersion | None:
        """Return the version to compare with: the one asked for, `current`, or the one before."""
        asked = request.GET.get("against", "")
        if asked:
            number = tool.version if asked == "current" else asked
            found = tool.versions.filter(version=number).first()
            if found is None:
                raise Http404
            return found
        return tool.versions.filter(pk__lt=version.pk).first()

    def _page(
        self, request: HttpRequest, template: str, tool: McpToolDefinition, title: str, **context: object
    ) -> HttpResponse:
        return TemplateResponse(
            request,
            template,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": title,
                "tool": tool,
                "object": tool,
                **context,
            },
        )
