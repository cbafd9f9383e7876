"""Who changed what, over everything that operators configure: found by what, who and when, and shown side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from invocations.admin_walking import WalkedAdmin
from invocations.chain.models import AuditEvent
from sessions_app.admin_base import moment
from sessions_app.admin_changelist import ChoiceFilter, TimeRangeFilter
from sessions_app.shown import clipped, narrow
from tools_catalog.admin_difference import difference

if TYPE_CHECKING:
    _Text = admin.SimpleListFilter
else:
    from unfold.contrib.filters.admin import TextFilter as _Text

_HAPPENED = moment("happened_at", _("time"))
_MOST_FIELDS = 6


class SubjectFilter(ChoiceFilter):
    """Events by what they are about: the word before the full stop of their kind."""

    title = _("what was changed")
    parameter_name = "about"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Any:
        return [
            ("tool", _("tools")), ("resource", _("resources")), ("prompt", _("prompts")),
            ("mcptoolset", _("toolsets")), ("httpservice", _("services")), ("mcpconnection", _("connections")),
            ("mcpupstreamtool", _("upstream offers")), ("launchprofile", _("launch profiles")),
            ("secret", _("secrets")), ("key", _("API keys")), ("error_mapping", _("error mappings")),
            ("redaction_rule", _("redaction rules")), ("retention_policy", _("retention")),
            ("legal_hold", _("legal holds")), ("chatprovider", _("providers")), ("chatmodel", _("models")),
            ("chatkey", _("chat settings of keys")), ("toolapproval", _("approval policies")), ("user", _("users")),
            ("group", _("groups")), ("audit", _("the audit")), ("bodies", _("what was read")),
        ]  # fmt: skip

    def narrow(self, queryset: QuerySet[Any], chosen: str) -> QuerySet[Any]:
        # A range of the index by kind: all that begins with the word and a full stop.
        return queryset.filter(kind__gt=f"{chosen}.", kind__lt=f"{chosen}/")


class ActorFilter(_Text):
    """Events by who did it, exactly, so that the index answers."""

    title = _("by (user:1, key:1, machine, hub)")
    parameter_name = "actor"

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        written = (self.value() or "").strip()
        return queryset.filter(actor=written) if written else queryset


@admin.register(AuditEvent)
class AuditEventAdmin(WalkedAdmin):
    list_display = [_HAPPENED, "shown_kind", "listed_subject", "shown_fields", "shown_actor", "shown_reason"]
    list_display_links = [_HAPPENED]
    list_filter = [SubjectFilter, ActorFilter, ("happened_at", TimeRangeFilter)]
    search_fields = ["=kind", "=subject_label"]
    search_help_text = _("Kind of event, such as tool.changed")
    readonly_fields = [_HAPPENED, "kind", "shown_subject", "shown_actor", "reason"]
    fields = tuple(readonly_fields)
    change_form_after_template = "admin/hub/event.html"
    ordering = ["-id"]
    actions = None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        term = search_term.strip()
        return (queryset.filter(kind=term) if term else queryset), False

    @admin.display(description=_("kind"))
    def shown_kind(self, event: AuditEvent) -> SafeString:
        subject, _dot, deed = event.kind.partition(".")
        return format_html("{}.<wbr>{}", subject, deed) if deed else format_html("{}", subject)

    @admin.display(description=_("subject"))
    def listed_subject(self, event: AuditEvent) -> SafeString:
        return narrow(self.shown_subject(event))

    @admin.display(description=_("subject"))
    def shown_subject(self, event: AuditEvent) -> str:
        return clipped(f"{event.subject_label} {f'#{event.subject_id}' if event.subject_id else ''}".strip(), 80) or "-"

    @admin.display(description=_("what changed"))
    def shown_fields(self, event: AuditEvent) -> SafeString | str:
        names = list(dict.fromkeys([*_fields(event.before), *_fields(event.after)]))
        if not names:
            return "-"
        more = "…" if len(names) > _MOST_FIELDS else ""
        return narrow(", ".join(names[:_MOST_FIELDS]) + more)

    @admin.display(description=_("by"))
    def shown_actor(self, event: AuditEvent) -> str:
        return clipped(f"{event.actor_label} ({event.actor})" if event.actor_label else event.actor, 80) or "-"

    @admin.display(description=_("reason"))
    def shown_reason(self, event: AuditEvent) -> SafeString | str:
        return narrow(event.reason) if event.reason else "-"

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = dict(extra_context or {})
        event = self.get_object(request, object_id) if object_id is not None else None
        if event is not None:
            context["fields"] = difference(_fields(event.before), _fields(event.after))
        return super().changeform_view(request, object_id, form_url, context)


def _fields(state: Any) -> dict[str, Any]:
    """Give a state by field; what is none is shown under a field of its own."""
    if state is None:
        return {}
    return state if isinstance(state, dict) else {"value": state}
