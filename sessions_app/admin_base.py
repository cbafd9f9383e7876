"""What the admin pages of every floor are made of: base classes, the JSON editor, confirmations, marks."""

from __future__ import annotations

import json as stdlib
from collections.abc import Callable, Sequence
from datetime import datetime, time
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Page, Paginator
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_time
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from simple_history.template_utils import HistoricalRecordContextHelper
from unfold.decorators import action as theme_action

from sessions_app.fields import JSONText
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.shown import clipped, visible

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[Any]

    class _Recorded: ...

    from django.contrib.admin.views.main import ChangeList as _List

    _Range = admin.FieldListFilter
    _Page = Page[Any]
    _Paginator = Paginator[Any]
else:
    _Page, _Paginator = Page, Paginator
    from simple_history.admin import SimpleHistoryAdmin as _Recorded
    from unfold.admin import ModelAdmin as _Base
    from unfold.contrib.filters.admin import RangeDateTimeFilter as _Range
    from unfold.views import ChangeList as _List

_MARKS = {
    "good": "check_circle",
    "bad": "error",
    "wait": "schedule",
    "off": "do_not_disturb_on",
    "edit": "edit",
    "warn": "warning",
}


_Method = TypeVar("_Method", bound=Callable[..., Any])


def detail_action(**options: Any) -> Callable[[_Method], _Method]:
    """Make a method an action of one row's page; the theme's decorator, with its types."""
    return cast("Callable[[_Method], _Method]", theme_action(**options))


def mark(kind: str, word: object) -> SafeString:
    """Give a state as icon and word in a colour; `kind` is one of good, bad, wait, edit, warn, off."""
    return format_html(
        '<span class="hub-mark hub-{}"><span class="material-symbols-outlined" aria-hidden="true">{}</span>{}</span>',
        kind, _MARKS[kind], word,
    )  # fmt: skip


def row_of(page: Any, request: HttpRequest, object_id: str) -> Any:
    """Give the row that an address of an admin's page names; raise Http404."""
    row = page.get_object(request, object_id)
    if row is None:
        raise Http404
    return row


def moment(field: str, words: Any) -> Any:
    """Give a column, or a read-only field, that shows a time with its zone."""

    @admin.display(description=words, ordering=field, empty_value="-")
    def shown(row: Any) -> Any:
        value = getattr(row, field)
        if value is None:
            return None
        local = timezone.localtime(value)
        return format_html(
            '<time class="hub-time" datetime="{}">{}</time>',
            local.isoformat(),
            local.strftime("%Y-%m-%d %H:%M:%S %Z"),
        )

    return shown


class TimeRangeFilter(_Range):
    """A range of time in the hub's zone; a day without a time means its begin or its end."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        for side, lookup, default in (("from", "gte", time.min), ("to", "lte", time.max)):
            try:
                day = parse_date(self._given(f"{side}_0"))
                clock = parse_time(self._given(f"{side}_1")) or default
            except ValueError:
                continue
            if day is not None:
                moment = timezone.make_aware(datetime.combine(day, clock))
                queryset = queryset.filter(**{f"{self.field_path}__{lookup}": moment})
        return queryset

    def _given(self, part: str) -> str:
        return str(self.used_parameters.get(f"{self.field_path}_{part}") or "").strip()


class JSONEditor(forms.Textarea):
    """A text editor for JSON that keeps what was written; without scripts it is a plain text area."""

    template_name = "admin/hub/json_editor.html"

    class Media:
        css = {"all": ["django_svelte_jsoneditor/css/svelte_jsoneditor.css"]}
        js = [forms.Script("mcphub/json_editor.js", type="module")] if hasattr(forms, "Script") else []

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__({"rows": 14, "spellcheck": "false", "class": "hub-json-text", **(attrs or {})})

    def _render(self, template_name: str, context: dict[str, Any], renderer: Any = None) -> SafeString:
        # The renderer of forms looks into applications only; this template stands with the project's pages.
        return render_to_string(template_name, context)


class JSONFormField(forms.JSONField):
    """Reads JSON by the hub's own strict rules, so that an error names line and column."""

    widget = JSONEditor
    empty_values = [None, ""]  # [] and {} are values

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value.encode("utf-8", "surrogatepass"))
        except ParseError as error:
            why = str(error).replace("The body", "The text")
            raise ValidationError(_("Mend the JSON. %(why)s"), code="invalid", params={"why": why}) from error

    def bound_data(self, data: Any, initial: Any) -> Any:
        return data  # as it was typed; the page shows it again beside the error

    def prepare_value(self, value: Any) -> str:
        if isinstance(value, str) or value is None:
            return value or ""
        return stdlib.dumps(value, indent=2, ensure_ascii=False)

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return stdlib.dumps(initial) != stdlib.dumps(self.to_python(data))
        except ValidationError:
            return True


class UncountedPage(_Page):
    has_more = False

    def has_next(self) -> bool:
        return self.has_more


class UncountedPaginator(_Paginator):
    """Pages of a table that is never counted: each page reads one row more than it shows."""

    template_name = "admin/hub/pagination.html"
    LAST_PAGE = 1000
    """Offsets cost the database; who needs more narrows the filter."""

    @cached_property
    def count(self) -> int:
        return self.LAST_PAGE * self.per_page

    def page(self, number: int | str) -> UncountedPage:
        number = self.validate_number(number)
        start = (number - 1) * self.per_page
        rows = list(self.object_list[start : start + self.per_page + 1])
        page = UncountedPage(rows[: self.per_page], number, self)
        self.shown_page = page
        page.has_more = len(rows) > self.per_page and number < self.LAST_PAGE
        return page


class HubAdmin(_Base):
    """Tables with our sizes and JSON fields with our editor."""

    list_per_page = 50
    compressed_fields = False
    list_filter_sheet = True
    list_filter_submit = True
    formfield_overrides = {JSONText: {"form_class": JSONFormField, "widget": JSONEditor}}

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"show_save_and_add_another": False, **(extra_context or {})}
        return super().changeform_view(request, object_id, form_url, context)

    def confirmation(
        self,
        request: HttpRequest,
        *,
        title: str,
        items: Sequence[tuple[str, str]],
        explanation: str,
        button: str,
        back: str,
        action: str = "",
        danger: bool = False,
        reason: bool = False,
        typed: str = "",
        selected: Sequence[Any] = (),
    ) -> TemplateResponse | None:
        """Give the page that asks before the deed, or None once the operator has confirmed it.

        `items` are pairs of name and remark. `typed` is a word that must be written by hand. `reason` asks for
        the reason of the change; it then stands in `request.POST["reason"]`.
        """
        confirmed = request.method == "POST" and "confirmed" in request.POST
        wrong = confirmed and bool(typed) and request.POST.get("typed", "").strip() != typed
        if confirmed and not wrong:
            return None
        return TemplateResponse(
            request,
            "admin/hub/confirm.html",
            {
                **self.admin_site.each_context(request), "opts": self.opts, "title": title, "items": items,
                "explanation": explanation, "button": button, "back": back, "action": action, "danger": danger,
                "ask_reason": reason, "reason": request.POST.get("reason", ""), "typed": typed, "wrong": wrong,
                "selected": selected, "checkbox_name": ACTION_CHECKBOX_NAME,
            },
        )  # fmt: skip


class ReadOnlyAdmin(HubAdmin):
    """Shows what the hub records; nothing is added, changed or deleted here."""

    compressed_fields = True

    def has_add_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return False

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> Any:
        context = {"show_history": False, **(extra_context or {})}
        return super().changeform_view(request, object_id, form_url, context)

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> Any:
        raise PermissionDenied  # records have no history: they do not change

    def get_readonly_fields(self, request: HttpRequest, obj: Any | None = None) -> Any:
        return self.readonly_fields


class UncountedList(_List):
    """A list whose length nobody knows, so that the page claims none."""

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        self.full_result_count = self.result_count


class UncountedAdmin(ReadOnlyAdmin):
    """A read-only list over a table of any size."""

    paginator = UncountedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # a facet is a count of the whole table
    list_max_show_all = 0

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[_List]:
        return UncountedList


class VisibleChanges(HistoricalRecordContextHelper):  # type: ignore[misc, unused-ignore]
    """The changes of one record in words; foreign text in them hides nothing."""

    def stringify_delta_change_values(self, change: Any, old: Any, new: Any) -> tuple[Any, Any]:
        old, new = super().stringify_delta_change_values(change, old, new)
        return conditional_escape(visible(old)), conditional_escape(visible(new))


class RecordedAdmin(_Recorded, HubAdmin):
    """Keeps who changed what and why; old states are read, never written back past the checks of the form."""

    def history_form_view(
        self, request: HttpRequest, object_id: str, version_id: str, extra_context: Any = None
    ) -> Any:
        if request.method != "GET":
            raise PermissionDenied
        return super().history_form_view(request, object_id, version_id, extra_context)  # type: ignore[misc]

    def revert_disabled(self, request: HttpRequest, obj: Any | None = None) -> bool:
        return True

    def get_historical_record_context_helper(self, request: HttpRequest, historical_record: Any) -> Any:
        return VisibleChanges(self.model, historical_record)

    def history_view_title(self, request: HttpRequest, obj: Model) -> str:
        return str(_("Changes of %(name)s") % {"name": clipped(obj, 80)})


def names_and_count(queryset: QuerySet[Any], most: int = 50) -> tuple[list[tuple[str, str]], int]:
    """Give the first names of a selection, each with an empty remark, and how many there are in all."""
    count = queryset.count()
    names = [(clipped(row, 80), "") for row in queryset[:most]]
    if count > most:
        names.append(("…", str(_("and %(count)d more") % {"count": count - most})))
    return names, count
