"""The page on which a description of an API becomes tools: looked at first, then chosen from."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from sessions_app.kit.admin import drafts, kept_files
from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.admin.kept_files import KeptFile
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol.json import Json
from tools_catalog.importers import apart, descriptions, fetching, operations
from tools_catalog.importers.candidates import Candidate, Found
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.importers.operations import Imported
from tools_catalog.models import HttpService, McpToolDefinition
from tools_catalog.models.short_names import check_short_name

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_DRAFT = "mcphub_import"
_FILE = "mcphub_import_file"
_PROGRESS = "mcphub_import_progress"
_LONGEST_SHOWN = 300
_MOST_SHOWN = 200
"""Operations on the page, each with a field; what a filter matches is chosen without fields."""
_MOST_DRAFT_CHARACTERS = 16 * 1024 * 1024
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
        choices=[("openapi", "OpenAPI 3, Swagger 2.0"), ("graphql", "GraphQL")],
        widget=UnfoldAdminSelectWidget,
    )
    document = forms.FileField(
        label=_("File"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("JSON or YAML; of GraphQL the result of an introspection."),
    )
    source = forms.CharField(
        label=_("or its address"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_(
            "Where the document or the GraphQL endpoint is. The hub asks there with the credentials of the service."
        ),
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

    def __init__(self, *given: Any, kept: KeptFile | None = None, **more: Any) -> None:
        super().__init__(*given, **more)
        if kept is not None:
            self.fields["again"] = forms.BooleanField(
                label=_t("The file %(name)s") % {"name": kept.shown},
                required=False,
                help_text=_t("It is kept for an hour. A file that you choose above replaces it."),
            )
            self.order_fields(["service", "kind", "document", "again"])

    def clean(self) -> dict[str, object]:
        cleaned = super().clean() or self.cleaned_data
        if bool(cleaned.get("document") or cleaned.get("again")) is bool(cleaned.get("source")):
            self.add_error("document", _t("Give a file or an address."))
        elif cleaned.get("document") and cleaned["document"].size > apart.most_raw_bytes():
            most = apart.most_raw_bytes()
            self.add_error("document", _t("The file is larger than %(most)d bytes.") % {"most": most})
        return cleaned


class OperationFilter(forms.Form):
    """Which of the operations are shown and chosen."""

    method = forms.ChoiceField(label=_("Method"), required=False, widget=UnfoldAdminSelectWidget)
    tag = forms.ChoiceField(label=_("Tag"), required=False, widget=UnfoldAdminSelectWidget)
    text = forms.CharField(
        label=_("Path or name contains"), required=False, max_length=200, widget=UnfoldAdminTextInputWidget
    )

    def __init__(self, given: Any, found: Found) -> None:
        super().__init__(given)
        methods = dict.fromkeys(_method(each) for each in found.candidates)
        tags = sorted({tag for each in found.candidates for tag in each.tags})
        for name, values in (("method", methods), ("tag", tags)):
            field = self.fields[name]
            assert isinstance(field, forms.ChoiceField)
            field.choices = [("", _t("All")), *((value, visible(value, one_line=True)) for value in values)]

    def matching(self, found: Found) -> list[Candidate]:
        """Give what passes; nothing where a value is none of the choices."""
        if not self.is_valid():
            return []
        method, tag, text = (self.cleaned_data[name] for name in ("method", "tag", "text"))
        text = text.lower()
        return [
            each
            for each in found.candidates
            if (not method or _method(each) == method)
            and (not tag or tag in each.tags)
            and (not text or text in each.key.lower() or text in each.name.lower())
        ]


def import_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Look at a description, filter its operations, or import what was chosen of them."""
    if not request.user.has_perms(NEEDED):
        raise PermissionDenied
    if request.method == "POST" and "chosen" in request.POST:
        answer = _import(request)
        # The script that shows how far it is goes on by itself.
        is_script = request.headers.get("Accept") == "application/json"
        return JsonResponse({"next": answer.url}) if is_script else answer
    if request.method == "GET" and "progress" in request.GET:
        return JsonResponse(drafts.find(request, _PROGRESS) or {})
    if request.method == "GET" and "draft" in request.GET:
        return _filtered(admin, request)
    if request.method == "POST":
        return _look(admin, request)
    return _page(admin, request, form=ImportForm(initial={"service": request.GET.get("service", "")}))


def _look(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Show what a description has; where it cannot be read, the form again with its file."""
    kept = kept_files.find(request, _FILE)
    form = ImportForm(request.POST, request.FILES, kept=kept)
    refused = ""
    if form.is_valid():
        try:
            draft = _draft(form.cleaned_data, kept)
            shown = _shown(draft, OperationFilter({}, _found(draft)))
        except DocumentRefused as error:
            refused = str(error)
        else:
            drafts.drop(request, _FILE)
            drafts.keep(request, _DRAFT, draft)
            drafts.keep(request, _PROGRESS, {"step": "checked", "done": 0, "total": 0})
            return _page(admin, request, form=None, **shown)
    if "document" in request.FILES:
        form = _with_file_kept(request, form)
    if refused:
        form.add_error(None, refused)
    return _page(admin, request, form=form)


def _with_file_kept(request: HttpRequest, form: ImportForm) -> ImportForm:
    """Give the form with its file as one that is kept, and chosen already."""
    file = request.FILES["document"]
    assert isinstance(file, UploadedFile)
    kept = kept_files.keep(request, _FILE, file)
    if kept is None:
        if not form.has_error("document"):
            form.add_error("document", _t("The file is too large to be kept. Choose it again."))
        return form
    given = request.POST.copy()
    given["again"] = "on"
    return ImportForm(given, kept=kept)


def _draft(given: dict[str, Any], kept: KeptFile | None) -> dict[str, Json]:
    """Read the description, and keep what was found in it; raises DocumentRefused."""
    source, kind, slug = given["source"].strip(), given["kind"], given["service"]
    if source:
        raw = async_to_sync(fetching.fetch)(source, kind, slug)
    elif given["document"] is not None:
        raw = given["document"].read()
    else:
        assert kept is not None  # or the form was refused
        raw = kept.raw
    found = apart.look(raw, kind, slug=slug, prefix=f"{slug}_", source=source)
    packed = base64.b64encode(zlib.compress(descriptions.encoded(found), 6)).decode("ascii")
    if len(packed) > _MOST_DRAFT_CHARACTERS:
        raise DocumentRefused(
            _t("The description has too many operations for this page. Import it with `mcphub catalog import`.")
        )
    url = given["url"].strip() or (source if kind == "graphql" else "")
    return {"slug": slug, "url": url, "reads_only": given["reads_only"], "found": packed}


def _found(draft: dict[str, Json]) -> Found:
    return descriptions.decoded(zlib.decompress(base64.b64decode(draft["found"])))


def _filtered(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    draft = drafts.find(request, _DRAFT)
    if draft is None or "found" not in draft:
        messages.error(request, _t("The description is no longer there. Give it again."))
        return redirect(reverse("admin:service_import"))
    return _page(admin, request, form=None, **_shown(draft, OperationFilter(request.GET, _found(draft))))


def _import(request: HttpRequest) -> HttpResponseRedirect:
    def told(step: str, done: int, total: int) -> None:
        drafts.change(request, _PROGRESS, {"step": step, "done": done, "total": total})

    draft = drafts.find(request, _DRAFT)
    here = reverse("admin:service_import")
    if draft is None or "found" not in draft:
        messages.error(request, _t("The description is no longer there. Give it again."))
        return redirect(here)
    found = _found(draft)
    chosen = request.POST.getlist("operation")
    if request.POST["chosen"] == "matching":
        taken = _taken(found, draft["slug"])
        chosen = [each.key for each in OperationFilter(request.POST, found).matching(found) if each.name not in taken]
    try:
        report = _bring(draft, found, only=chosen, author=request.user, told=told)
    except DocumentRefused as error:
        messages.error(request, str(error))
        return redirect(f"{here}?draft=1")
    if report.refused:
        key, why = report.refused[0]
        messages.error(request, _t("Nothing was imported. %(key)s: %(why)s") % {"key": clipped(key, 100), "why": why})
        return redirect(f"{here}?draft=1")
    drafts.drop(request, _DRAFT)
    drafts.drop(request, _PROGRESS)
    words = {"new": len(report.created), "changed": len(report.changed), "gone": len(report.gone)}
    messages.success(request, _t("%(new)d new tools, %(changed)d changed, %(gone)d switched off.") % words)
    return redirect(f"{reverse('admin:tools_catalog_mcptooldefinition_changelist')}?service={draft['slug']}")


def _bring(draft: dict[str, Json], found: Found, **how: Any) -> Imported:
    return operations.bring(found, draft["slug"], url=draft["url"], reads_only=draft["reads_only"], **how)


def _method(candidate: Candidate) -> str:
    return candidate.key.partition(" ")[0]


def _taken(found: Found, slug: str) -> set[str]:
    """Give the names of candidates that other tools have already."""
    names = {each.name for each in found.candidates}
    others = McpToolDefinition.objects.exclude(operation__service__slug=slug)
    return names & set(others.values_list("name", flat=True))


def _shown(draft: dict[str, Json], chosen: OperationFilter) -> dict[str, object]:
    """What the second step shows: each operation with what would become of it. Raises DocumentRefused."""
    slug, found = draft["slug"], _found(draft)
    report = _bring(draft, found, only=[], dry_run=True)
    service = HttpService.objects.filter(slug=slug).first()
    known = {row.key: row.tool for row in service.operations.select_related("tool")} if service else {}
    refused = dict(report.refused)
    taken = _taken(found, slug)
    matching = chosen.matching(found)
    rows = []
    for each in matching[:_MOST_SHOWN]:
        tool = known.get(each.key)
        name = tool.name if tool else each.name
        why = refused.get(each.key, "")
        if tool is None and each.name in taken:
            why = _t("Another tool has this name.")
        changes = [
            (member, _short(before), _short(after))
            for member, (before, after) in report.differences.get(name, {}).items()
        ]
        if why:
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
                # What destroys is chosen by hand, and what was left out before stays out.
                "chosen": not why and (tool is not None or not (known or each.definition.get("destructive"))),
                "effects": _effects(each, reads_only=bool(draft["reads_only"])),
                "words": clipped(each.definition["description"], 160),
                "changes": changes,
                "why": visible(why),
                "kept": ", ".join(report.overridden.get(name, [])),
            }
        )
    left = [(visible(key, one_line=True), visible(why)) for key, why in found.refused]
    return {
        "rows": rows,
        "filter": chosen,
        "matching": len(matching),
        "left": left[:_MOST_SHOWN],
        "left_count": len(left),
        "gone": [clipped(name, 64) for name in report.gone],
        "notes": [visible(note) for note in report.notes],
        "slug": slug,
    }


def _effects(candidate: Candidate, *, reads_only: bool) -> SafeString | str:
    if candidate.definition.get("destructive"):
        return mark("warn", _t("Destructive"))
    if not operations.is_query(candidate):
        return mark("edit", _t("Writes"))
    return mark("good", _t("Read-only")) if reads_only else ""


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
