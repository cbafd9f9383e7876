"""The page on which a description of an API becomes tools: looked at first, then chosen from."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol.json import Json
from tools_catalog.importers import fetching, operations
from tools_catalog.importers.candidates import Found
from tools_catalog.importers.documents import MAX_BYTES, DocumentRefused
from tools_catalog.importers.operations import Imported
from tools_catalog.models import HttpService
from tools_catalog.models.short_names import check_short_name

_DRAFT = "mcphub_import"
_LONGEST_SHOWN = 300
NEEDED = (
    "tools_catalog.add_httpservice",
    "tools_catalog.change_httpservice",
    "tools_catalog.add_mcptooldefinition",
    "tools_catalog.change_mcptooldefinition",
)


class ImportForm(forms.Form):
    service = forms.CharField(
        label=_("Service"),
        max_length=32,
        widget=UnfoldAdminTextInputWidget,
        validators=[check_short_name],
        help_text=_("Which service the tools call. It is made from the description if there is none of this name."),
    )
    kind = forms.ChoiceField(
        label=_("Kind of description"),
        choices=[("openapi", "OpenAPI 3.0, 3.1"), ("graphql", "GraphQL")],
        widget=UnfoldAdminSelectWidget,
    )
    document = forms.FileField(
        label=_("File"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("JSON or YAML; of GraphQL the result of an introspection. At most 4 MB."),
    )
    source = forms.CharField(
        label=_("or its address"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Of the document, or of the GraphQL endpoint. Fetched with the credentials of the service."),
    )
    url = forms.CharField(
        label=_("Address of the API"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Only for a new service, and where the description does not say it."),
    )
    reads_only = forms.BooleanField(
        label=_("What queries changes nothing"),
        required=False,
        help_text=_("Marks GET and GraphQL queries as read-only: you know that it is so."),
    )

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        if bool(cleaned.get("document")) is bool(cleaned.get("source")):
            self.add_error("document", _t("Give a file or an address."))
        elif cleaned.get("document") and cleaned["document"].size > MAX_BYTES:
            self.add_error("document", _t("The file is larger than %(most)d bytes.") % {"most": MAX_BYTES})
        return cleaned


def import_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Look at a description, or import what was chosen of the one that was looked at."""
    if not request.user.has_perms(NEEDED):
        raise PermissionDenied
    if request.method == "POST" and "chosen" in request.POST:
        return _import(admin, request)
    form = ImportForm(request.POST or None, request.FILES or None, initial={"service": request.GET.get("service", "")})
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            source = given["source"].strip()
            raw = (
                async_to_sync(fetching.fetch)(source, given["kind"], given["service"])
                if source
                else given["document"].read()
            )
            url = given["url"].strip() or (source if given["kind"] == "graphql" else "")
            draft = {
                "slug": given["service"],
                "kind": given["kind"],
                "source": source,
                "url": url,
                "reads_only": given["reads_only"],
                "raw": base64.b64encode(zlib.compress(raw)).decode("ascii"),
            }
            report, found = _bring(draft, only=["*"], dry_run=True)
        except DocumentRefused as error:
            form.add_error(None, str(error))
        else:
            request.session[_DRAFT] = draft
            return _page(admin, request, form=None, **_shown(draft["slug"], report, found))
    return _page(admin, request, form=form)


def _import(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    draft = request.session.get(_DRAFT)
    here = reverse("admin:service_import")
    if draft is None:
        messages.error(request, _t("The description is no longer there. Give it again."))
        return redirect(here)
    try:
        report, _found = _bring(draft, only=request.POST.getlist("operation"), author=request.user)
    except DocumentRefused as error:
        messages.error(request, str(error))
        return redirect(here)
    if report.refused:
        key, why = report.refused[0]
        messages.error(request, _t("Nothing was imported. %(key)s: %(why)s") % {"key": clipped(key, 100), "why": why})
        return redirect(here)
    del request.session[_DRAFT]
    words = {"new": len(report.created), "changed": len(report.changed), "gone": len(report.gone)}
    messages.success(request, _t("%(new)d new tools, %(changed)d changed, %(gone)d switched off.") % words)
    return redirect(f"{reverse('admin:tools_catalog_mcptooldefinition_changelist')}?service={draft['slug']}")


def _bring(draft: dict[str, Json], **how: Any) -> tuple[Imported, Found]:
    raw = zlib.decompress(base64.b64decode(draft["raw"]))
    slug = draft["slug"]
    found = operations.look(raw, draft["kind"], slug=slug, prefix=f"{slug}_", source=draft["source"])
    return operations.bring(found, slug, url=draft["url"], reads_only=draft["reads_only"], **how), found


def _shown(slug: str, report: Imported, found: Found) -> dict[str, object]:
    """What the second step shows: each operation with what would become of it."""
    service = HttpService.objects.filter(slug=slug).first()
    known = {row.key: row.tool for row in service.operations.select_related("tool")} if service else {}
    refused = dict(report.refused)
    rows = []
    for each in found.candidates:
        tool = known.get(each.key)
        name = tool.name if tool else each.name
        changes = [
            (member, _short(before), _short(after))
            for member, (before, after) in report.differences.get(name, {}).items()
        ]
        if each.key in refused:
            state = mark("bad", _t("Refused"))
        elif tool is None:
            state = mark("edit", _t("New"))
        else:
            state = mark("warn", _t("Changed")) if changes else mark("good", _t("Unchanged"))
        rows.append(
            {
                "key": each.key,
                "shown": visible(each.key, one_line=True),
                "name": clipped(name, 64),
                "state": state,
                "chosen": each.key not in refused and (tool is not None or not known),
                "fixed": tool is not None,
                "words": clipped(each.definition["description"], 160),
                "changes": changes,
                "why": visible(refused.get(each.key, "")),
                "kept": ", ".join(report.overridden.get(name, [])),
            }
        )
    left = [(visible(key, one_line=True), visible(why)) for key, why in found.refused]
    return {
        "rows": rows,
        "left": left,
        "gone": [clipped(name, 64) for name in report.gone],
        "notes": [visible(note) for note in report.notes],
        "slug": slug,
    }


def _short(value: object) -> str:
    text = visible(str(value))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _page(admin: HubAdmin, request: HttpRequest, **more: object) -> TemplateResponse:
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": _t("Import a description"),
        "back": reverse("admin:tools_catalog_httpservice_changelist"),
        **more,
    }
    return TemplateResponse(request, "admin/hub/import.html", context)
