"""The page on which a description of an API becomes tools: looked at first, then chosen from."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from asgiref.sync import async_to_sync
from django import forms
from django.contrib import messages
from django.contrib.auth.models import Group
from django.core.exceptions import PermissionDenied
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from unfold.widgets import UnfoldAdminFileFieldWidget, UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from mcphub.features.importers import descriptions, fetching, operations, worker
from mcphub.features.importers.candidates import Candidate, Found
from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.importers.operations import Imported
from sessions_app.kit.admin import drafts, kept_files
from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.admin.kept_files import KeptFile
from sessions_app.kit.shown import clipped, visible
from sessions_app.protocol.json import Json
from tools_catalog.models import HttpService, McpToolDefinition, McpToolset
from tools_catalog.models.short_names import check_short_name

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_DRAFT = "mcphub_import"
_FILE = "mcphub_import_file"
_PROGRESS = "mcphub_import_progress"
_LONGEST_SHOWN = 300
_MOST_SHOWN = 200
"""Operations on the page, each with a field; matches of a filter are chosen without fields."""
_MOST_DRAFT_CHARACTERS = 16 * 1024 * 1024
_EFFECTS = {"reads": _("Read-only"), "writes": _("Writes"), "destroys": _("Destructive")}
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
        help_text=_("The service that the tools call. It is created from the description if it doesn't exist yet."),
    )
    kind = forms.ChoiceField(
        label=_("Type of description"),
        choices=[("openapi", "OpenAPI 3, Swagger 2.0"), ("graphql", "GraphQL")],
        widget=UnfoldAdminSelectWidget,
    )
    document = forms.FileField(
        label=_("File"),
        required=False,
        widget=UnfoldAdminFileFieldWidget,
        help_text=_("JSON or YAML; for GraphQL the result of an introspection."),
    )
    source = forms.CharField(
        label=_("or its URL"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("The URL of the document or GraphQL endpoint. The hub fetches it with the service's credentials."),
    )
    url = forms.CharField(
        label=_("API base URL"),
        required=False,
        max_length=2000,
        widget=UnfoldAdminTextInputWidget,
        help_text=_("Only for a new service, and only if the description doesn't contain it."),
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
            self.add_error("document", _t("Choose a file or enter a URL."))
        elif cleaned.get("document") and cleaned["document"].size > worker.most_raw_bytes():
            most = worker.most_raw_bytes()
            self.add_error("document", _t("The file is larger than %(most)d bytes.") % {"most": most})
        return cleaned


class PlaceForm(forms.Form):
    """Who gets the new tools, and from when."""

    toolset = forms.ModelChoiceField(
        McpToolset.objects.order_by("slug"),
        label=_("Add new tools to the toolset"),
        required=False,
        empty_label=_("none"),
        widget=UnfoldAdminSelectWidget,
    )
    groups = forms.ModelMultipleChoiceField(
        Group.objects.order_by("name"),
        label=_("Only for these groups"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_("Select none to offer the new tools to every caller."),
    )
    enable = forms.BooleanField(
        label=_("Enable new tools now"),
        required=False,
        help_text=_("Otherwise they stay off until you have reviewed and enabled them in the list of tools."),
    )

    def __init__(self, given: Any = None, *, request: HttpRequest) -> None:
        super().__init__(given)
        if not request.user.has_perm("tools_catalog.change_mcptoolset"):
            del self.fields["toolset"]


class OperationFilter(forms.Form):
    """Which of the operations are shown and chosen."""

    effects = forms.ChoiceField(
        label=_("Effects"), required=False, choices=[("", _("All")), *_EFFECTS.items()], widget=UnfoldAdminSelectWidget
    )
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
        """Return the matches; none if a value is not among the choices."""
        if not self.is_valid():
            return []
        effects, method, tag, text = (self.cleaned_data[name] for name in ("effects", "method", "tag", "text"))
        text = text.lower()
        return [
            each
            for each in found.candidates
            if (not effects or _effects_of(each) == effects)
            and (not method or _method(each) == method)
            and (not tag or tag in each.tags)
            and (not text or text in each.key.lower() or text in each.name.lower())
        ]


def import_view(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    """Preview a description, filter its operations, or import the selected ones."""
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
    """Show the operations of a description; if it cannot be read, the form again with its file."""
    kept = kept_files.find(request, _FILE)
    form = ImportForm(request.POST, request.FILES, kept=kept)
    refused = ""
    if form.is_valid():
        try:
            draft = _draft(form.cleaned_data, kept)
            shown = _shown(draft, OperationFilter({}, _found(draft)), PlaceForm(request=request))
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
    """Return the form with its file as one that is kept, and chosen already."""
    file = request.FILES["document"]
    assert isinstance(file, UploadedFile)
    kept = kept_files.keep(request, _FILE, file)
    if kept is None:
        if not form.has_error("document"):
            form.add_error("document", _t("The file is too large to keep. Choose it again."))
        return form
    given = request.POST.copy()
    given["again"] = "on"
    return ImportForm(given, kept=kept)


def _draft(given: dict[str, Any], kept: KeptFile | None) -> dict[str, Json]:
    """Read the description, and keep its operations; raises DocumentRefused."""
    source, kind, slug = given["source"].strip(), given["kind"], given["service"]
    if source:
        raw = async_to_sync(fetching.fetch)(source, kind, slug)
    elif given["document"] is not None:
        raw = given["document"].read()
    else:
        assert kept is not None  # or the form was refused
        raw = kept.raw
    found = worker.look(raw, kind, slug=slug, prefix=f"{slug}_", source=source)
    packed = base64.b64encode(zlib.compress(descriptions.encoded(found), 6)).decode("ascii")
    if len(packed) > _MOST_DRAFT_CHARACTERS:
        raise DocumentRefused(
            _t(
                "The description has too many operations for this page. Upload a file with fewer paths, or import it "
                "with `mcphub catalog import`."
            )
        )
    url = given["url"].strip() or (source if kind == "graphql" else "")
    return {"slug": slug, "url": url, "found": packed}


def _found(draft: dict[str, Json]) -> Found:
    return descriptions.decoded(zlib.decompress(base64.b64decode(draft["found"])))


def _filtered(admin: HubAdmin, request: HttpRequest) -> HttpResponse:
    draft = drafts.find(request, _DRAFT)
    if draft is None or "found" not in draft:
        messages.error(request, _t("The description has expired. Upload it again."))
        return redirect(reverse("admin:service_import"))
    tried = draft.get("tried")
    given = QueryDict(tried) if isinstance(tried, str) else None
    place = PlaceForm(given, request=request)
    ticked = None if given is None else given.getlist("operation")
    shown = _shown(draft, OperationFilter(request.GET, _found(draft)), place, ticked=ticked)
    return _page(admin, request, form=None, **shown)


def _import(request: HttpRequest) -> HttpResponseRedirect:
    def told(step: str, done: int, total: int) -> None:
        drafts.change(request, _PROGRESS, {"step": step, "done": done, "total": total})

    draft = drafts.find(request, _DRAFT)
    here = reverse("admin:service_import")
    if draft is None or "found" not in draft:
        messages.error(request, _t("The description has expired. Upload it again."))
        return redirect(here)
    found = _found(draft)
    chosen = request.POST.getlist("operation")
    if request.POST["chosen"] == "matching":
        taken = _taken(found, draft["slug"])
        chosen = [each.key for each in OperationFilter(request.POST, found).matching(found) if each.name not in taken]
    place = PlaceForm(request.POST, request=request)
    if not place.is_valid():
        return _tried(request, draft)
    try:
        report = _bring(draft, found, only=chosen, author=request.user, told=told, **place.cleaned_data)
    except DocumentRefused as error:
        messages.error(request, str(error))
        return _tried(request, draft)
    if report.refused:
        key, why = report.refused[0]
        messages.error(request, _t("Nothing was imported. %(key)s: %(why)s") % {"key": clipped(key, 100), "why": why})
        return _tried(request, draft)
    drafts.drop(request, _DRAFT)
    drafts.drop(request, _PROGRESS)
    words = {"new": len(report.created), "changed": len(report.changed), "gone": len(report.gone)}
    messages.success(request, _t("%(new)d new tools, %(changed)d changed, %(gone)d disabled.") % words)
    if report.created and not place.cleaned_data["enable"]:
        messages.info(request, _t("The new tools are off. Review them, then select and enable them below."))
    return redirect(f"{reverse('admin:tools_catalog_mcptooldefinition_changelist')}?service={draft['slug']}")


def _tried(request: HttpRequest, draft: dict[str, Json]) -> HttpResponseRedirect:
    """Return to the choice with what was chosen."""
    drafts.change(request, _DRAFT, {**draft, "tried": request.POST.urlencode()})
    narrowed = [(name, request.POST[name]) for name in OperationFilter.base_fields if request.POST.get(name)]
    return redirect(f"{reverse('admin:service_import')}?{urlencode([('draft', '1'), *narrowed])}")


def _bring(draft: dict[str, Json], found: Found, **how: Any) -> Imported:
    return operations.bring(found, draft["slug"], url=draft["url"], **how)


def _effects_of(candidate: Candidate) -> str:
    columns = candidate.definition
    return "destroys" if columns["destructive"] else "reads" if columns["read_only"] else "writes"


def _method(candidate: Candidate) -> str:
    return candidate.key.partition(" ")[0]


def _taken(found: Found, slug: str) -> set[str]:
    """Return the names of candidates that other tools have already."""
    names = {each.name for each in found.candidates}
    others = McpToolDefinition.objects.exclude(operation__service__slug=slug)
    return names & set(others.values_list("name", flat=True))


def _shown(
    draft: dict[str, Json], chosen: OperationFilter, place: PlaceForm, *, ticked: list[str] | None = None
) -> dict[str, object]:
    """Return the context of the second step: each operation with its future tool. Raises DocumentRefused.

    `ticked` are the operations that were chosen before; otherwise those that only read, and those that are tools.
    """
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
            why = _t("Another tool already has this name.")
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
                # What writes is chosen by hand, and what was left out before stays out.
                "chosen": not why
                and (each.key in ticked if ticked is not None else tool is not None or _is_safe(each, known)),
                "effects": _effects(each),
                "kind": _effects_of(each),
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
        "place": place,
        "matching": len(matching),
        "left": left[:_MOST_SHOWN],
        "left_count": len(left),
        "gone": [clipped(name, 64) for name in report.gone],
        "notes": [visible(note) for note in report.notes],
        "slug": slug,
    }


def _is_safe(candidate: Candidate, known: Collection[str]) -> bool:
    return not known and _effects_of(candidate) == "reads"


def _effects(candidate: Candidate) -> SafeString:
    effects = _effects_of(candidate)
    return mark({"reads": "good", "writes": "edit", "destroys": "warn"}[effects], str(_EFFECTS[effects]))


def _short(value: object) -> str:
    text = visible(str(value))
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _page(admin: HubAdmin, request: HttpRequest, **more: object) -> TemplateResponse:
    context = {
        **admin.admin_site.each_context(request),
        "opts": admin.opts,
        "title": _t("Import an API"),
        "back": reverse("admin:tools_catalog_httpservice_changelist"),
        **more,
    }
    return TemplateResponse(request, "admin/hub/import.html", context)
