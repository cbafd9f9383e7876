"""The history of a row in the admin: author, time, source and reason of each change, and its content."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from django.contrib.admin.utils import quote, unquote
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, path, reverse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from sessions_app.history import reading, source
from sessions_app.history.guarding import GuardedModel
from sessions_app.history.models import AuditEvent, WaitingChange
from sessions_app.kit.admin.base import HubAdmin, mark
from sessions_app.kit.admin.difference import difference
from sessions_app.kit.admin.row_page import PagePart, PageTable, PageWaiting, adds_to_page
from sessions_app.kit.shown import ago, clipped, pretty, visible
from sessions_app.protocol.json import Json
from sessions_app.workspaces import acting

_ON_A_PAGE = 5
"""Changes that stand on the page of a row."""
_MOST_FIELDS = 6
_MOST_CHARACTERS = 100
_DEEDS = {"created": ("good", _("Created")), "changed": ("edit", _("Changed")), "deleted": ("bad", _("Deleted"))}
_WAYS = {
    source.ADMIN: _("admin"),
    source.REST: _("REST"),
    source.CLI: _("command line"),
    source.BUNDLE: _("bundle"),
    source.SYSTEM: _("the hub itself"),
}


def by_whom(event: AuditEvent) -> str:
    return clipped(f"{event.actor_label} ({event.actor})" if event.actor_label else event.actor, 80) or "-"


def way(event: AuditEvent) -> str:
    """Return by which way an edit came, in words."""
    return str(_WAYS.get(event.via, event.via)) or "-"


def entry_address(event: AuditEvent, user: AbstractUser | AnonymousUser) -> str:
    """Return the address of the event in the history of its row; empty where there is none that the user may open."""
    app, _dot, model = event.subject_model.partition(".")
    if not model or not any(user.has_perm(f"{app}.{deed}_{model}") for deed in ("view", "change")):
        return ""
    try:
        return reverse(f"admin:{app}_{model}_history_entry", args=[quote(event.subject_id), event.pk])
    except NoReverseMatch:
        return ""


def shown_deed(event: AuditEvent) -> SafeString:
    kind, word = _DEEDS.get(event.deed, ("edit", event.deed))
    return mark(kind, word)


class RecordedAdmin(HubAdmin):
    """Records author and reason of changes; old states are read, never restored past the checks of the form."""

    history_per_page: ClassVar[int] = 50

    def get_urls(self) -> list[URLPattern]:
        entry = require_safe(self.admin_site.admin_view(self.history_entry_view))
        name = f"{self.opts.app_label}_{self.opts.model_name}_history_entry"
        return [path("<path:object_id>/history/<int:number>/", entry, name=name), *super().get_urls()]

    def history_view(self, request: HttpRequest, object_id: str, extra_context: object = None) -> HttpResponse:
        """Show the events of a row, newest first; a deleted row keeps its history."""
        row, events = self._subject(request, object_id)
        newest = events.first()
        label = str(row) if row is not None else newest.subject_label if newest else ""
        page = Paginator(events, self.history_per_page).get_page(request.GET.get("p"))
        entries = [
            {
                "event": event,
                "deed": shown_deed(event),
                "by": by_whom(event),
                "way": way(event),
                "address": self._entry_address(object_id, event),
                "changes": self._changes(event),
            }
            for event in page
        ]
        context = {
            "title": _t("Changes of %(name)s") % {"name": clipped(label, 80)},
            "label": label,
            "newer": f"?p={page.previous_page_number()}" if page.has_previous() else "",
            "older": f"?p={page.next_page_number()}" if page.has_next() else "",
            "entries": entries,
            "is_whole": newest is None or reading.is_whole(events),
            "row_address": row and self._row_address(object_id),
        }
        return self._history_page(request, "admin/hub/history.html", context)

    def history_entry_view(self, request: HttpRequest, object_id: str, number: int) -> TemplateResponse:
        """Show one change side by side: the row before it, the row after it, and the whole row as it then was."""
        _row, events = self._subject(request, object_id)
        event = events.filter(pk=number).first()
        if event is None:
            raise Http404
        before, after = reading.in_words(self.model, event.before), reading.in_words(self.model, event.after)
        whole = reading.state_after(self.model, event)
        is_of_the_whole_row = event.kind.endswith((".created", ".deleted"))
        shown = event.before if whole is None else whole
        context = {
            "title": _t("Change of %(name)s") % {"name": clipped(event.subject_label, 80)},
            "event": event,
            "deed": shown_deed(event),
            "by": by_whom(event),
            "way": way(event),
            "fields": [] if is_of_the_whole_row else [field for field in difference(before, after) if field.rows],
            "hidden": [label for label, value in before.items() if value == after.get(label)],
            "whole": [(label, _whole(value)) for label, value in reading.in_words(self.model, shown).items()],
            "is_deleted": whole is None,
            "older": self._neighbour(object_id, events.filter(pk__lt=number).first()),
            "newer": self._neighbour(object_id, events.filter(pk__gt=number).last()),
            "all": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_history", args=[quote(object_id)]),
        }
        return self._history_page(request, "admin/hub/history_entry.html", context)

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        if isinstance(obj, GuardedModel):
            chosen = {name: form.cleaned_data[name] for name in obj.GUARDED_LINKS if name in form.cleaned_data}
            form.cleaned_data |= obj.admitted_links(chosen)
        super().save_model(request, obj, form, change)

    def log_addition(self, request: HttpRequest, obj: Model, message: object) -> Any:
        """Write nothing into Django's own log: the row's event covers it."""

    def log_change(self, request: HttpRequest, obj: Model, message: object) -> Any:
        """Write nothing, as above."""

    def log_deletions(self, request: HttpRequest, queryset: QuerySet[Model]) -> Any:
        """Write nothing, as above."""

    def _subject(self, request: HttpRequest, object_id: str) -> tuple[Model | None, QuerySet[AuditEvent]]:
        """Return the row, if it is still there, and its events. Raises Http404, PermissionDenied."""
        row = self.get_object(request, unquote(object_id))
        if not self.has_view_or_change_permission(request, row):
            raise PermissionDenied
        events = reading.events_of(self.model, unquote(object_id))
        is_kept_back = row is None and (self._is_there(unquote(object_id)) or not self.shows_deleted(request))
        if is_kept_back or (row is None and not events.exists()):
            raise Http404
        return row, events

    def shows_deleted(self, request: HttpRequest) -> bool:
        """Return whether the person may see what a deleted row held. Pages that keep rows from people override this."""
        return True

    def _is_there(self, key: str) -> bool:
        """Return whether there is a row with this key, be it one that the page keeps from the person."""
        try:
            found: bool = self.model._base_manager.filter(pk=key).exists()
        except (ValidationError, ValueError):
            return False
        return found

    def _changes(self, event: AuditEvent) -> list[SafeString]:
        return _changes(self.model, event)

    def _neighbour(self, object_id: str, event: AuditEvent | None) -> str:
        return "" if event is None else self._entry_address(object_id, event)

    def _entry_address(self, object_id: str, event: AuditEvent) -> str:
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_history_entry"
        return reverse(name, args=[object_id, event.pk])

    def _row_address(self, object_id: str) -> str:
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[object_id])

    def _history_page(self, request: HttpRequest, template: str, context: dict[str, object]) -> TemplateResponse:
        request.current_app = self.admin_site.name
        return TemplateResponse(
            request, template, {**self.admin_site.each_context(request), "opts": self.opts, **context}
        )


@adds_to_page(Model, place=80)
def its_history(request: HttpRequest, row: Model) -> Iterator[PagePart]:
    """Yield the newest changes of a row, and those that wait for a second person."""
    kind, key = row._meta.label_lower, str(row.pk)
    if request.user.has_perm("sessions_app.view_waitingchange"):
        waiting = WaitingChange.objects.filter(
            subject_model=kind, subject_id=key, state=WaitingChange.State.WAITING, expires_at__gt=timezone.now()
        )
        for each in waiting[:_ON_A_PAGE]:
            words = _t("A change by %(name)s waits for a second person.") % {
                "name": clipped(each.proposer_label or each.proposed_by, 80)
            }
            yield PageWaiting(words, reverse("admin:sessions_app_waitingchange_change", args=[each.pk]))
    rows = [
        (
            _moment(event, request),
            shown_deed(event),
            by_whom(event),
            format_html_join("", "<div>{}</div>", ((each,) for each in _changes(type(row), event))) or event.reason,
        )
        for event in reading.events_of(type(row), row.pk)[:_ON_A_PAGE]
    ]
    app, name = row._meta.app_label, row._meta.model_name
    is_open = _is_open(request, f"{app}_{name}_history")
    link = reverse(f"admin:{app}_{name}_history", args=[quote(row.pk)]) if rows and is_open else ""
    head = (_t("Time"), _t("What"), _t("By"), _t("Changes"))
    yield PageTable("history", _t("Changes"), head, rows, _t("No changes yet."), link, _t("All changes"))


def _moment(event: AuditEvent, request: HttpRequest) -> SafeString | str:
    """Return when the event happened, with a link for those who may open it."""
    name = f"{event.subject_model.replace('.', '_')}_history_entry"
    link = entry_address(event, request.user) if _is_open(request, name) else ""
    words = ago(event.happened_at)
    return format_html('<a class="hub-link hub-time" href="{}">{}</a>', link, words) if link else words


def _is_open(request: HttpRequest, page: str) -> bool:
    """Return whether a page is one of those that a person's workspace has, if they act in one."""
    return acting.acting_of(request.user) is None or page in acting.PAGES


def _changes(model: type[Model], event: AuditEvent) -> list[SafeString]:
    if event.deed != "changed":
        return []
    found = list(reading.changes(model, event, _MOST_CHARACTERS))
    lines = [_line(each) for each in found[:_MOST_FIELDS]]
    return lines if len(found) <= _MOST_FIELDS else [*lines, format_html("…")]


def _line(change: reading.FieldChange) -> SafeString:
    if change.before == change.after:  # neither is shown
        return format_html("<strong>{}</strong>: {}", visible(change.label), change.after)
    before, after = _cell(change.before), _cell(change.after)
    return format_html("<strong>{}</strong>: {} → {}", visible(change.label), before, after)


def _whole(value: Json) -> str:
    if value is None:
        return ""
    return visible(value.replace("\r\n", "\n")) if isinstance(value, str) else pretty(value)


def _cell(text: str) -> str:
    return "–" if text in ("", "[]", "{}") else visible(text, one_line=True)
