"""The catalogue as a file: exported, and imported after a preview of the changes."""

from __future__ import annotations

import base64
import hashlib
import zlib
from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import get_valid_filename
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget

from sessions_app.kit.admin import drafts
from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.admin.difference import difference
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json
from tools_catalog.admin.bulk import download
from tools_catalog.bundles import bundle
from tools_catalog.bundles.entries import Report

_DRAFT = "mcphub_bundle"
_MOST_BYTES = 4 * 1024 * 1024
_TABLES = {
    "tools": "tools_catalog.{}_mcptooldefinition",
    "services": "tools_catalog.{}_httpservice",
    "toolsets": "tools_catalog.{}_mcptoolset",
    "resources": "tools_catalog.{}_mcpresource",
    "prompts": "tools_catalog.{}_mcpprompt",
    "connections": "tools_catalog.{}_mcpconnection",
    "error_mappings": "invocations.{}_mcperrormapping",
}
"""Kind of entries -> their permissions. A kind that is not named here is a superuser's."""


class BundleForm(forms.Form):
    document = forms.FileField(
        label=_("File"),
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("A bundle from this page or `mcphub catalog dump`. At most 4 MB."),
    )
    overwrite = forms.BooleanField(
        label=_("Also replace entries that were edited here or came from another source"),
        required=False,
        help_text=_("Otherwise they are kept and listed as such."),
    )

    def clean_document(self) -> Json:
        document = self.cleaned_data["document"]
        if document.size > _MOST_BYTES:
            raise forms.ValidationError(_("The file is larger than %(most)d bytes.") % {"most": _MOST_BYTES})
        return document


def may(request: HttpRequest, kind: str, *deeds: str) -> bool:
    table = _TABLES.get(kind)
    user: Any = request.user
    return bool(user.is_superuser if table is None else user.has_perms([table.format(deed) for deed in deeds]))


def bundle_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Offer the export; look at a file, or bring in the one that was looked at."""
    if not admin.has_view_permission(request):
        raise PermissionDenied
    if request.method == "POST" and "confirmed" in request.POST:
        return _bring(admin, request)
    form = BundleForm(request.POST or None, request.FILES or None)
    if request.method == "POST":
        if not may(request, "tools", "add", "change"):
            raise PermissionDenied
        if form.is_valid():
            given = form.cleaned_data["document"]
            raw, overwrite = given.read(), form.cleaned_data["overwrite"]
            try:
                document = json.loads(raw)
            except ParseError as error:
                form.add_error("document", str(error).replace("The body", "The file"))
            else:
                reason = f"bundle {get_valid_filename(given.name)}"[:100]
                _need(request, document)
                report = bundle.load(document, reason=reason, overwrite=overwrite, dry_run=True)
                kept = base64.b64encode(zlib.compress(raw)).decode("ascii")
                seen = hashlib.sha256(raw + bytes([overwrite])).hexdigest()
                draft = {"raw": kept, "reason": reason, "overwrite": overwrite, "seen": seen}
                drafts.keep(request, _DRAFT, draft)
                return _page(admin, request, look=_shown(report), name=given.name, seen=seen)
    return _page(admin, request, form=form if may(request, "tools", "add", "change") else None)


def export_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Return the visible part of the catalogue."""
    if not admin.has_view_permission(request):
        raise PermissionDenied
    whole = bundle.dump()
    shown = {kind: part for kind, part in whole.items() if kind == "format" or may(request, kind, "view")}
    return download(shown, "catalogue.json")


def _bring(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    draft = drafts.find(request, _DRAFT)
    drafts.drop(request, _DRAFT)
    if draft is None or draft["seen"] != request.POST.get("seen"):  # another tab may have looked at another file
        messages.error(request, _t("The file has expired. Upload it again."))
        return redirect("admin:catalogue_bundle")
    document = json.loads(zlib.decompress(base64.b64decode(draft["raw"])))
    _need(request, document)
    report = bundle.load(document, reason=draft["reason"], overwrite=draft["overwrite"])
    if report.refused:  # the catalogue changed since the look
        return _page(admin, request, look=_shown(report), name=draft["reason"])
    done = _t("%(new)d new, %(changed)d changed, %(kept)d kept as edited here, %(unchanged)d unchanged.") % {
        "new": len(report.created),
        "changed": len(report.changed),
        "kept": len(report.kept),
        "unchanged": len(report.unchanged),
    }
    messages.success(request, done)
    for name in report.missing_secrets:
        messages.warning(request, _t("The secret %(name)s doesn't exist yet: add it.") % {"name": name})
    rows = [(clipped(name, 100), state, "") for name, state in _states(report)]
    return admin.outcomes_page(
        request,
        title=_t("Imported entries"),
        rows=rows,
        back=reverse("admin:tools_catalog_mcptooldefinition_changelist"),
    )


def _need(request: HttpRequest, document: object) -> None:
    """Raise PermissionDenied for a bundle with entries of a kind that the person may not add and change."""
    parts = document if isinstance(document, dict) else {}
    if refused := [kind for kind in parts if kind != "format" and not may(request, kind, "add", "change")]:
        words = {"kinds": clipped(", ".join(refused), 200)}
        raise PermissionDenied(_t("You don't have permission to add and change: %(kinds)s.") % words)


def _states(report: Report) -> list[tuple[str, SafeString]]:
    return [
        *((name, mark("edit", _t("New"))) for name in report.created),
        *((name, mark("warn", _t("Changed"))) for name in report.changed),
        *((name, mark("off", _t("Kept"))) for name in report.kept),
        *((name, mark("good", _t("Unchanged"))) for name in report.unchanged),
    ]


def _shown(report: Report) -> dict[str, object]:
    """Return the context of the second step: each entry with its outcome, and the difference side by side."""
    return {
        "refused": [(clipped(name, 100), visible(why)) for name, why in report.refused],
        "missing": [clipped(name, 100) for name in report.missing_secrets],
        "nothing": not (report.created or report.changed),
        "rows": [
            {
                "name": clipped(name, 100),
                "state": state,
                "fields": [
                    field
                    for member, (before, after) in report.differences.get(name, {}).items()
                    for field in difference({member: before}, {member: after})
                ],
            }
            for name, state in _states(report)
        ],
    }


def _page(admin: HubAdmin, request: HttpRequest, **more: object) -> TemplateResponse:
    kinds = [kind for kind in (*bundle.KINDS, *(part.kind for part in bundle.PARTS)) if may(request, kind, "view")]
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": _t("Catalogue file"),
        "kinds": kinds,
        "back": reverse("admin:tools_catalog_mcptooldefinition_changelist"),
        **more,
    }
    return TemplateResponse(request, "admin/hub/bundle.html", context)
