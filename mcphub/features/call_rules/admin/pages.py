"""The pages of call rules: an editor with a dry run, and a test bench."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from invocations.admin.row_calls import calls_found
from mcphub.features.call_rules import expressions, recorded, trying
from mcphub.features.call_rules.filters import POLICY_FILTERS
from mcphub.features.call_rules.models import McpPolicyRule
from sessions_app.history import guarding
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import detail_action, mark, moment
from sessions_app.kit.admin.check import CheckedForm, previewed
from sessions_app.kit.admin.json_field import JSONEditor, JSONFormField
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.row_page import PagePart, adds_to_page
from sessions_app.kit.shown import clipped, mono
from sessions_app.protocol.json import Json
from sessions_app.workspaces.pages import WorkspacePages
from tools_catalog.admin.switch import SwitchActions
from tools_catalog.models import McpToolDefinition, McpToolset
from tools_catalog.models.ruled import ruled
from tools_catalog.policy.scope import tags_of

_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))
_EXAMPLE: dict[str, Json] = {
    "tool": {"name": "add"},
    "principal": {"id": "key:1", "groups": []},
    "arguments": {"a": 1, "b": 2},
}
_MAY_READ = "invocations.read_bodies"

# An admin is one object for all requests, and the columns of its pages are given the row alone.
_reads_bodies: ContextVar[bool] = ContextVar("who asks may read bodies", default=False)
_watched: ContextVar[Mapping[str, Mapping[str, int]]] = ContextVar("what watching rules would have done")
_decided: ContextVar[Mapping[str, int]] = ContextVar("how often rules decided")


class ConditionEditor(forms.Textarea):
    """Offers the members of the context while a condition is written; without scripts a plain text area."""

    class Media:
        js = ("mcphub/condition.js",)

    def __init__(self) -> None:
        super().__init__(
            {
                "rows": 6,
                "spellcheck": "false",
                "class": "hub-json-text",
                "data-completions": " ".join(expressions.completions()),
            }
        )


class BenchForm(forms.Form):
    call = JSONFormField(label=_("Call, as JSON"), initial=_EXAMPLE, widget=JSONEditor({"rows": 14}))


@admin.register(McpPolicyRule)
class McpPolicyRuleAdmin(WorkspacePages, CheckedForm, SwitchActions, RecordedAdmin):
    workspace_pages = (
        "changelist",
        "add",
        "change",
        "delete",
        "switch",
        "check_new",
        "check",
        "history",
        "history_entry",
    )
    checked_fields = ("name", "applies_to", "target", "condition", "effect", "valid_from", "valid_until")
    list_display = [
        "shown_name",
        "shown_effect",
        "shown_where",
        "shown_condition",
        "priority",
        "shown_decided",
        "state",
        _CHANGED,
    ]
    list_display_links = ["shown_name"]
    filters = POLICY_FILTERS
    list_select_related = False  # no column follows a relation
    search_fields = ["name", "target", "condition", "words"]
    search_help_text = _("Name, condition or words")
    page_facts = ("shown_effect", "shown_where", "shown_condition", "words", "state", "priority", "version")
    actions = ["enable_selected", "disable_selected"]
    actions_list = ["bench"]
    readonly_fields = ["version", "verdicts", _REGISTERED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["name", "version", "effect", "words", "priority"]}),
        (_("Which calls"), {"fields": ["workspace", "applies_to", "target", "condition"]}),
        (_("What it would have done"), {"fields": ["verdicts"]}),
        (_("When it applies"), {"fields": ["enabled", "watching", "valid_from", "valid_until"]}),
        (_("Approval"), {"fields": ["ask_decider", "ask_group", "ask_needed", "ask_seconds", _REGISTERED, _CHANGED]}),
    ]

    shown_name = column(_("name"), lambda row: mono(row.name), ordering="name")
    shown_where = column(
        _("applies to"),
        lambda row: f"{row.get_applies_to_display()} {clipped(row.target, 60)}".strip(),
        ordering="applies_to",
    )
    shown_condition = column(_("condition"), lambda row: mono(clipped(row.condition, 80)) if row.condition else "-")

    @admin.display(description=_("effect"), ordering="effect")
    def shown_effect(self, row: McpPolicyRule) -> SafeString:
        kind = {"deny": "bad", "ask": "warn", "allow": "good"}[row.effect]
        if row.watching:
            return mark("wait", _t("%(effect)s (log only)") % {"effect": row.get_effect_display()})
        return mark(kind, row.get_effect_display())

    @admin.display(description=_("in the last 10 000 calls"))
    def shown_decided(self, row: McpPolicyRule) -> str:
        if row.watching:
            said = _watched.get({}).get(row.name, {})
            return _t("would deny %(deny)d, ask for %(ask)d") % {"deny": said.get("deny", 0), "ask": said.get("ask", 0)}
        return _t("decided %(count)d") % {"count": _decided.get({}).get(row.name, 0)}

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        _watched.set(recorded.watched())
        _decided.set(recorded.decided())
        page: HttpResponse = super().changelist_view(request, extra_context)
        return page

    def formfield_for_dbfield(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name == "condition":
            kwargs["widget"] = ConditionEditor()
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_readonly_fields(
        self, request: HttpRequest, obj: McpPolicyRule | None = None
    ) -> list[str] | tuple[str, ...]:
        # The record names it, so the name stays.
        return [*self.readonly_fields, *(["name"] if obj is not None else [])]

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        may: bool = super().has_delete_permission(request, obj)
        is_loosening = isinstance(obj, McpPolicyRule) and obj.is_in_force and guarding.needs_second_person()
        return may and not is_loosening  # switching it off is held back for a second person; removing it would not be

    # What it would have done ---------------------------------------------------------------------------

    @admin.display(description=_("in the newest recorded calls"))
    def verdicts(self, row: McpPolicyRule) -> SafeString | str:
        known = row.__dict__  # a page asks for a field more than once
        if "_verdicts" not in known:
            known["_verdicts"] = previewed(self._said_of(row if row.pk else None))
        said: SafeString | str = known["_verdicts"]
        return said

    def preview_of(self, row: McpPolicyRule | None) -> SafeString | str:
        said = self._said_of(row)
        if row is not None and (unknown := row.unknown_names()):
            names = clipped(", ".join(unknown), 300)
            warned = mark("warn", _t("This hub has nothing with these names: %(names)s") % {"names": names})
            said = format_html('<p class="hub-below">{}</p>{}', warned, said)
        return previewed(said)

    def _said_of(self, row: McpPolicyRule | None) -> SafeString | str:
        if row is None:
            return _t("Correct the errors above to run the test.")
        rule = row.compiled()
        reads_arguments = rule.condition is not None and "args" in rule.condition.variables
        if reads_arguments and not _reads_bodies.get():
            return _t("Your account can't read the bodies of calls, so it can't test conditions on them.")
        found = recorded.verdicts(rule)
        return render_to_string(
            "admin/hub/policy_verdicts.html",
            {
                "found": found,
                "effect": row.get_effect_display(),
                "is_allow": row.effect == McpPolicyRule.Effect.ALLOW,
                "refused": found.concerned - found.held,
                "reasons": found.reasons.most_common(5),
                "page": "admin:invocations_mcptoolinvocation_change",
            },
        )

    def check_view(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        _reads_bodies.set(request.user.has_perm(_MAY_READ))
        return super().check_view(request, object_id)

    def get_object(self, request: HttpRequest, *args: Any, **kwargs: Any) -> McpPolicyRule | None:
        _reads_bodies.set(request.user.has_perm(_MAY_READ))
        row: McpPolicyRule | None = super().get_object(request, *args, **kwargs)
        return row

    # The test bench --------------------------------------------------------------------------------------

    @detail_action(description=_("Test bench"), url_path="try", icon="science")
    def bench(self, request: HttpRequest) -> HttpResponse:
        return self.bench_view(request)

    def get_urls(self) -> list[URLPattern]:
        view = path("bench/", self.admin_site.admin_view(self.bench_view), name="policy_bench")
        return [view, *super().get_urls()]

    def bench_view(self, request: HttpRequest) -> HttpResponse:
        """Show the verdict of each rule on a pasted call. Makes no call and keeps nothing."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        form = BenchForm(request.POST if request.method == "POST" else None)
        found: trying.Tried | None = None
        if request.method == "POST" and form.is_valid():
            try:
                found = _tried(form.cleaned_data["call"])
            except ValueError as error:
                form.add_error("call", str(error))
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "form": form,
            "found": found,
            "rows": trying.shown(found.findings) if found is not None else [],
            "verdict": found and _verdict(found),
            "title": _t("Call rule test bench"),
            "back": reverse("admin:tools_catalog_mcppolicyrule_changelist"),
        }
        return TemplateResponse(request, "admin/hub/policy_bench.html", context)

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        if enabled:
            return (
                ngettext("Enable %(count)d rule?", "Enable %(count)d rules?", count),
                _t("They take effect within 250 ms. Log-only rules take no action; their verdicts are recorded."),
                ngettext("%(count)d rule enabled: %(names)s.", "%(count)d rules enabled: %(names)s.", count),
            )
        return (
            ngettext("Disable %(count)d rule?", "Disable %(count)d rules?", count),
            _t("They stop deciding. Disabling a rule in force needs a second person."),
            ngettext("%(count)d rule disabled: %(names)s.", "%(count)d rules disabled: %(names)s.", count),
        )


@adds_to_page(McpPolicyRule, place=20)
def its_calls(request: HttpRequest, row: McpPolicyRule) -> Iterator[PagePart]:
    """Yield the calls that the rule decided."""
    return calls_found(request, {"policy_rule": row.name})


def _tried(entry: Json) -> trying.Tried:
    """Try the rules that are switched on. A tool of the catalogue is completed by its name, a caller by its id."""
    if isinstance(entry, dict) and isinstance(tool := entry.get("tool"), str):
        entry = {**entry, "tool": {"name": tool}}
    if isinstance(entry, dict) and isinstance(entry.get("tool"), dict) and entry["tool"].keys() == {"name"}:
        entry = {**entry, "tool": _known_tool(str(entry["tool"]["name"]))}
    if isinstance(entry, dict) and isinstance(principal := entry.get("principal"), str):
        entry = {**entry, "principal": recorded.principals_now({principal: ""})[principal]}
    call = trying.read_call(entry)
    rules = [row.compiled() for row in McpPolicyRule.objects.filter(enabled=True)]
    return trying.tried(rules, call)


def _known_tool(name: str) -> dict[str, Json]:
    row = McpToolDefinition.objects.filter(name=name).first()
    if row is None:
        return {"name": name}
    tool = ruled(row)
    return {
        "name": name,
        "connection": tool.connection or "",
        "annotations": tool.definition["annotations"],
        "tags": tags_of(tool.definition),
        "toolsets": [each.slug for each in McpToolset.objects.filter(enabled=True) if name in each.names()],
        "version": row.version,
        "read_only": row.read_only,
    }


def _verdict(found: trying.Tried) -> SafeString:
    match found.ruling.effect:
        case "deny":
            return mark("bad", _t("Denied"))
        case "ask":
            return mark("warn", _t("Approval required"))
        case "allow":
            return mark("good", _t("Allowed by a rule"))
    return mark("good", _t("No rule applies"))
