"""Changes over everything that operators configure: searchable by subject, person and time, shown side by side."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from invocations.admin.facets import EVENT_FACETS, FacetCounts
from invocations.lists.filters import EVENT_FILTERS, told_of
from sessions_app.history.models import AuditEvent
from sessions_app.history.pages import by_whom, entry_address, way
from sessions_app.kit.admin.base import moment
from sessions_app.kit.admin.difference import difference
from sessions_app.kit.admin.parts import column
from sessions_app.kit.admin.replica import ReplicaPages
from sessions_app.kit.admin.search_line import SearchLine
from sessions_app.kit.lists.walking import WalkedKeyset
from sessions_app.kit.shown import clipped, narrow

_HAPPENED = moment("happened_at", _("time"))
_MOST_FIELDS = 6
_KIND = re.compile(r"[a-z_]+\.[a-z_]+")


@admin.register(AuditEvent)
class AuditEventAdmin(ReplicaPages):
    keyset = WalkedKeyset
    list_display = [_HAPPENED, "shown_kind", "listed_subject", "shown_fields", "shown_actor", "shown_reason"]
    list_display_links = [_HAPPENED]
    filters = EVENT_FILTERS
    search_fields = ["=kind", "=subject_label"]
    search_help_text = _(
        "about:tool, by:user:1, time:7d – or a kind of event, or words of a subject, a person, a reason"
    )
    change_list_template = "admin/hub/found_list.html"
    parts = (SearchLine(), FacetCounts("event", EVENT_FACETS, time="happened_at"))
    fields = [_HAPPENED, "kind", "shown_subject", "shown_actor", "shown_way", "reason"]
    change_form_after_template = "admin/hub/event.html"
    ordering = ["-id"]
    actions = None

    def search_words(self, request: HttpRequest, queryset: QuerySet[Any], words: str) -> tuple[QuerySet[Any], bool]:
        """Return the events of a kind, or those with the words in subject, person or reason."""
        if not words:
            return queryset, False
        return queryset.filter(Q(kind=words) if _KIND.fullmatch(words) else told_of(words)), False

    @admin.display(description=_("kind"))
    def shown_kind(self, event: AuditEvent) -> SafeString:
        subject, _dot, deed = event.kind.partition(".")
        return format_html("{}.<wbr>{}", subject, deed) if deed else format_html("{}", subject)

    @admin.display(description=_("subject"))
    def listed_subject(self, event: AuditEvent) -> SafeString:
        return narrow(self.shown_subject(event))

    shown_subject = column(
        _("subject"),
        lambda event: (
            clipped(f"{event.subject_label} {f'#{event.subject_id}' if event.subject_id else ''}".strip(), 80) or "-"
        ),
    )

    @admin.display(description=_("what changed"))
    def shown_fields(self, event: AuditEvent) -> SafeString | str:
        names = list(dict.fromkeys([*_fields(event.before), *_fields(event.after)]))
        if not names:
            return "-"
        more = "…" if len(names) > _MOST_FIELDS else ""
        return narrow(", ".join(names[:_MOST_FIELDS]) + more)

    shown_actor = column(_("by"), lambda event: by_whom(event))
    shown_way = column(_("source"), lambda event: way(event))
    shown_reason = column(_("reason"), lambda event: narrow(event.reason) if event.reason else "-")

    def beside(self, request: HttpRequest, row: AuditEvent) -> dict[str, object]:
        return {
            "fields": difference(_fields(row.before), _fields(row.after)),
            "entry": entry_address(row, request.user),
        }


def _fields(state: object) -> dict[str, object]:
    """Return a state by field; a state that is not an object is shown under a field of its own."""
    if state is None:
        return {}
    return state if isinstance(state, dict) else {"value": state}
