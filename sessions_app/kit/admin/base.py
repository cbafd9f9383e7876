"""The base of all floors' admin pages: base classes, confirmations, marks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from django import forms
from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin.exceptions import DisallowedModelAdminLookup
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ERROR_FLAG
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import IntegrityError
from django.db.models import Model, QuerySet
from django.db.models.options import Options
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import gettext_lazy as _
from unfold.decorators import action as theme_action

from sessions_app.kit import left_out
from sessions_app.kit.admin import density
from sessions_app.kit.admin.changelist import HubList, holds_nul, without_meaning
from sessions_app.kit.admin.chosen import ChosenRow, ChosenRows, LinksField
from sessions_app.kit.admin.filters import controls
from sessions_app.kit.admin.json_field import JSONEditor, JSONFormField
from sessions_app.kit.admin.keyset import KeysetList
from sessions_app.kit.admin.readonly import show_json
from sessions_app.kit.admin.row_page import page_of
from sessions_app.kit.admin.searched import SearchedAdmin
from sessions_app.kit.fields import JSONText
from sessions_app.kit.lists.keyset import Keyset
from sessions_app.kit.shown import clipped

if TYPE_CHECKING:
    from django.contrib.admin.views.main import ChangeList
    from django.utils.functional import _StrOrPromise

_MARKS = {
    "good": "check_circle",
    "bad": "error",
    "wait": "schedule",
    "off": "do_not_disturb_on",
    "edit": "edit",
    "warn": "warning",
}


_Method = TypeVar("_Method", bound=Callable[..., Any])
_Row = TypeVar("_Row", bound=Model)


def detail_action(**options: object) -> Callable[[_Method], _Method]:
    """Make a method an action of one row's page; the theme's decorator, with its types and the row's own key."""

    def decorate(method: _Method) -> _Method:
        themed = theme_action(**options)(method)

        @wraps(themed)
        def with_key(page: admin.ModelAdmin[Any], request: HttpRequest, **row: str) -> Any:
            # Addresses quote even an underscore. A list's action has no row.
            keys = {name: unquote(key) for name, key in row.items()}
            if not all(may_be_key(page.model, key) for key in keys.values()):
                raise Http404
            return themed(page, request, **keys)

        return cast("_Method", with_key)

    return decorate


def mark(kind: str, word: object) -> SafeString:
    """Return a state as icon and word in a colour; `kind` is one of good, bad, wait, edit, warn, off."""
    return format_html(
        '<span class="hub-mark hub-{}"><span class="material-symbols-outlined" aria-hidden="true">{}</span>{}</span>',
        kind,
        _MARKS[kind],
        word,
    )


def is_confirmed(request: HttpRequest) -> bool:
    """Return whether the page that asks before a deed was answered with yes."""
    return request.method == "POST" and "confirmed" in request.POST


def back_of(request: HttpRequest, otherwise: str) -> str:
    """Return the form's origin within this hub, as the form states it."""
    back = request.POST.get("back", "")
    return back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else otherwise


def may_be_key(model: type[Model], text: str) -> bool:
    """Return whether a text of an address may be a primary key: words are none where keys are positive numbers."""
    try:
        key = model._meta.pk.to_python(text)
    except ValidationError:
        return False
    return not isinstance(key, int) or key > 0


def row_of(page: admin.ModelAdmin[_Row], request: HttpRequest, object_id: str) -> _Row:
    """Return the row that an address of an admin's page names; raise Http404."""
    row = page.get_object(request, object_id)
    if row is None:
        raise Http404
    return row


def moment(field: str, words: _StrOrPromise) -> Any:
    """Return a column, or a read-only field, that shows a time with its zone."""

    @admin.display(description=words, ordering=field, empty_value="-")
    def shown(row: object) -> Any:
        value = getattr(row, field)
        if value is None:
            return None
        local = timezone.localtime(value)
        return format_html(
            '<time class="hub-time" datetime="{}">{}</time>', local.isoformat(), local.strftime("%Y-%m-%d %H:%M:%S %Z")
        )

    shown.__name__ = field  # what addresses call the column
    shown.is_moment = True  # type: ignore[attr-defined]  # left out where a row is made: it has no times yet
    return shown


def _of_a_new_row(fieldsets: Any) -> list[tuple[Any, dict[str, Any]]]:
    """Return the fieldsets of a form without what a row has only once it is saved: its times and its version."""
    left = [
        (name, {**options, "fields": [each for each in options["fields"] if not _is_of_saved_rows(each)]})
        for name, options in fieldsets
    ]
    return [(name, options) for name, options in left if options["fields"]]


def _is_of_saved_rows(field: Any) -> bool:
    return bool(field == "version" or getattr(field, "is_moment", False))


def _without(lines: list[Any], begins: tuple[str, ...]) -> list[Any]:
    """Return a nested list of lines without those that begin so, and without the lists that this leaves empty."""
    rest = [_without(each, begins) if isinstance(each, list) else each for each in lines]
    return [each for each in rest if each and not (isinstance(each, str) and each.startswith(begins))]


class HubAdmin(SearchedAdmin):
    """Tables with our sizes and JSON fields with our editor."""

    list_per_page = 50
    compressed_fields = False
    list_filter_sheet = True
    list_filter_submit = True
    formfield_overrides = {JSONText: {"form_class": JSONFormField, "widget": JSONEditor}}
    page_facts: Sequence[Any] = ()
    """Columns that stand at the head of a row's page, which then has figures, waiting items and tables (`row_page`)."""
    page_context: ClassVar[dict[str, Any]] = {}
    """Added to the context of every row's page."""

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ChangeList]:
        return HubList

    @admin.display(description=_("Select record"))
    def action_checkbox(self, obj: Model) -> SafeString:
        return format_html(
            '<input type="checkbox" name="{}" value="{}" class="action-select" aria-label="{}">',
            ACTION_CHECKBOX_NAME,
            obj.pk,
            _("Select record"),
        )

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> Any:
        key = unquote(object_id)
        if not may_be_key(self.model, key):  # Django leads on to the list, which says so
            return []
        return super().get_actions_detail(request, key)  # type: ignore[misc, unused-ignore]

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list of an address. Raises IncorrectLookupParameters for unknown parameters."""
        if holds_nul(request.GET):  # which is no text for a database
            raise IncorrectLookupParameters
        return super().get_changelist_instance(request)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[Any, int], set[Any], list[Any]]:
        """Return Django's answer without the rows that only tie two others: *User-group relationship (7)*.

        Rows of features that are switched off protect what they name.
        """
        to_delete, counts, lacking, protected = super().get_deleted_objects(objs, request)
        ties = [model._meta for model in apps.get_models(include_auto_created=True) if model._meta.auto_created]
        begins = tuple(f"{capfirst(tie.verbose_name)}: " for tie in ties)
        for tie in ties:
            counts.pop(str(tie.verbose_name_plural), None)
        kept = left_out.refusal(objs)
        return _without(to_delete, begins), counts, lacking, [*protected, kept] if kept else protected

    def get_urls(self) -> list[URLPattern]:
        return [*(url for part in self.parts for url in part.urls(self)), *super().get_urls()]

    def get_list_filter(self, request: HttpRequest) -> Any:
        return controls(self.filters) or super().get_list_filter(request)

    def get_list_display(self, request: HttpRequest) -> Any:
        columns: Any = super().get_list_display(request)
        for part in self.parts:
            columns = part.columns(self, request, list(columns))
        return columns

    def get_list_display_links(self, request: HttpRequest, list_display: Sequence[Any]) -> Any:
        """Let the usual columns lead to the row, or the first one where they are not shown."""
        if self.list_display_links is None:
            return None
        return [each for each in self.list_display_links if each in list_display] or list(list_display)[:1]

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", ChosenRow(db_field, self.admin_site, using=kwargs.get("using")))
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def formfield_for_manytomany(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        if db_field.name in self.get_autocomplete_fields(request):
            kwargs.setdefault("widget", ChosenRows(db_field, self.admin_site, using=kwargs.get("using")))
        return super().formfield_for_manytomany(db_field, request, **{"form_class": LinksField, **kwargs})

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, object] | None = None) -> Any:
        """Show the list with its parts."""
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        if (kept := density.keep(request)) is not None:
            return kept
        context: dict[str, Any] = density.shown(request)
        for part in self.parts:
            if (other := part.instead(self, request)) is not None:
                return other
            context |= part.context(self, request)
        answer = self._list_view(request, {**context, **(extra_context or {})})
        shown = (getattr(answer, "context_data", None) or {}).get("cl")
        for part in self.parts:
            if shown is not None and (other := part.listed(self, request, shown)) is not None:
                return other
        return answer

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Show or save the form of a row.

        Where somebody else saves the same name in the same moment, the database refuses this one: the form is read
        again, and now finds the other row.
        """
        try:
            return super().changeform_view(request, *args, **kwargs)
        except IntegrityError:
            if request.method != "POST":
                raise
        for _name, files in request.FILES.lists():
            for file in files:
                file.seek(0)  # the form has read it
        return super().changeform_view(request, *args, **kwargs)

    def _list_view(self, request: HttpRequest, context: dict[str, object]) -> HttpResponse | None:
        """Show the list; unknown parameters are ignored with a message."""
        refused: DisallowedModelAdminLookup | None = None
        answer = None
        try:
            answer = super().changelist_view(request, context)
        except DisallowedModelAdminLookup as error:
            refused = error
        is_wrong = refused is not None or getattr(answer, "url", "") == f"{request.path}?{ERROR_FLAG}=1"
        if not is_wrong or request.method != "GET":
            if refused is not None:
                raise refused
            return answer
        query = request.GET.copy()
        for name in without_meaning(request, self.get_changelist_instance):
            said = _(
                "Ignored: %(name)s=%(value)s. This list has no such filter, or the filter doesn't accept this value."
            )
            messages.warning(request, said % {"name": clipped(name, 60), "value": clipped(query[name], 60)})
            del query[name]
        if query == request.GET:  # each has a meaning alone
            query.clear()
            messages.warning(request, _("These filters can't be combined, so all of them were ignored."))
        return redirect(f"{request.path}?{query.urlencode(safe=',')}")

    def _get_obj_does_not_exist_redirect(
        self, request: HttpRequest, opts: Options[Model], object_id: str
    ) -> HttpResponse:
        # Django's own leads to the start page, away from the list and the filters that the operator came from.
        said = _("%(name)s %(key)s doesn't exist: it was never created, or was removed.")
        messages.warning(request, said % {"name": opts.verbose_name, "key": clipped(unquote(object_id), 60)})
        filters = request.GET.get("_changelist_filters", "")
        return redirect(reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist") + (filters and f"?{filters}"))

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        context |= {"show_save_and_add_another": False, **self.page_context}
        show_json(context["adminform"], self.model)
        row = kwargs.get("obj")
        if row is None:
            context["adminform"].fieldsets = _of_a_new_row(context["adminform"].fieldsets)
        if row is not None and self.page_facts:
            context["row_page"] = page_of(self, request, row)
        if row is not None:
            context |= self.beside(request, row)
        return super().render_change_form(request, context, *args, **kwargs)

    def beside(self, request: HttpRequest, row: Any) -> dict[str, object]:
        """Return the context of a row's page beside its fields."""
        return {}

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
        selected: Sequence[object] = (),
        hidden: Sequence[tuple[str, str]] = (),
        form: forms.Form | None = None,
        template: str = "admin/hub/confirm.html",
        more: Mapping[str, object] | None = None,
    ) -> TemplateResponse | None:
        """Return the page that asks before the deed, or None once the operator has confirmed it.

        `items` are pairs of name and remark. `typed` is a word that must be written by hand. `reason` asks for the
        reason of the change; it then stands in `request.POST["reason"]`. `hidden` is posted again. `form` asks for
        more, bound where `is_confirmed(request)`; None is given only if it is valid. `template` shows the items in
        another way, from `more`.
        """
        confirmed = is_confirmed(request)
        wrong = confirmed and bool(typed) and request.POST.get("typed", "").strip() != typed
        if confirmed and not wrong and (form is None or form.is_valid()):
            return None
        return TemplateResponse(
            request,
            template,
            {
                **self.admin_site.each_context(request),
                "opts": self.opts,
                "title": title,
                "items": items,
                "explanation": explanation,
                "button": button,
                "back": back,
                "action": action,
                "danger": danger,
                "ask_reason": reason,
                "reason": request.POST.get("reason", ""),
                "typed": typed,
                "wrong": wrong,
                "selected": selected,
                "checkbox_name": ACTION_CHECKBOX_NAME,
                "hidden": hidden,
                "form": form,
                **(more or {}),
            },
        )

    def confirmation_of(
        self,
        request: HttpRequest,
        queryset: QuerySet[Model],
        action: str,
        title: Callable[[int], str],
        explanation: str,
        button: str,
        *,
        touched: QuerySet[Model] | None = None,
        untouched: Callable[[int], str] | None = None,
        remarks: Callable[[list[Any]], Mapping[Any, str]] = lambda rows: {},
        back: str = "",
        **more: Any,
    ) -> TemplateResponse | None:
        """Return the page that asks before an action on selected rows, or None once the operator has confirmed it.

        `touched` are the rows to change; `untouched` describes the number of others. `back` is the address of the one
        row whose page has the action; without it a list has it.
        """
        names, count = names_and_count(queryset if touched is None else touched, remarks=remarks)
        others = 0 if touched is None else queryset.count() - count
        if others and untouched is not None:
            explanation = f"{explanation} {untouched(others) % {'count': others}}"
        return self.confirmation(
            request,
            title=title(count) % {"count": count},
            items=names,
            explanation=explanation,
            button=button,
            back=back or request.get_full_path(),
            action="" if back else action,
            selected=() if back else list(queryset.values_list("pk", flat=True)),
            **more,
        )

    def outcomes_page(
        self, request: HttpRequest, *, title: str, rows: Sequence[tuple[str, SafeString, str]], back: str
    ) -> TemplateResponse:
        """Return the page with the outcome of each row of a selection: name, mark, remark."""
        context = {"opts": self.opts, "title": title, "rows": rows, "back": back}
        return TemplateResponse(request, "admin/hub/outcome.html", {**self.admin_site.each_context(request), **context})


class ReadOnlyAdmin(HubAdmin):
    """Shows the hub's records; they cannot be added, changed or deleted here."""

    compressed_fields = True
    page_context: ClassVar[dict[str, Any]] = {"show_history": False}

    def has_add_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Model | None = None) -> bool:
        return False

    def history_view(self, request: HttpRequest, object_id: str, extra_context: object = None) -> HttpResponse:
        raise PermissionDenied  # records have no history: they do not change

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return [name for _title, options in self.get_fieldsets(request, obj) for name in options["fields"]]

    def get_fields(self, request: HttpRequest, obj: Model | None = None) -> Any:
        return self.fields or ()


class UncountedAdmin(ReadOnlyAdmin):
    """A read-only list over a table of any size."""

    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # a facet is a count of the whole table
    list_max_show_all = 0
    sortable_by = ()
    keyset: type[Keyset[Any]] = Keyset
    """Reads the pages, within bounds."""
    is_windowed = False
    """Whether some query of the list has no index."""
    window = 5000
    """Number of rows that a page searches without an index."""
    indexed: tuple[str, ...] = ()
    """Fields, beside that of the order, by which an index finds rows in the order of the list."""

    def get_changelist(self, request: HttpRequest, **kwargs: object) -> type[ChangeList]:
        return KeysetList


def names_and_count(
    queryset: QuerySet[Model], most: int = 50, remarks: Callable[[list[Any]], Mapping[Any, str]] = lambda rows: {}
) -> tuple[list[tuple[str, str]], int]:
    """Return the first names of a selection, each with its remark from `remarks`, and the count of all."""
    count = queryset.count()
    rows = list(queryset[:most])
    said = remarks(rows)
    names = [(clipped(row, 80), said.get(row.pk, "")) for row in rows]
    if count > most:
        names.append(("…", str(_("and %(count)d more") % {"count": count - most})))
    return names, count
