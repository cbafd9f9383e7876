"""Lists that people arrange for themselves: columns to choose from, and views that are saved under a name.

A list's address says everything that is seen: filters, search, order and, as `columns=time,status`, the columns. So a
saved view is an address with a name. Where the address names no columns, those that the reader chose last are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.admin.utils import label_for_field
from django.core.exceptions import PermissionDenied
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _t

from sessions_app.admin_base import HubAdmin
from sessions_app.admin_changelist import COLUMNS, POSITION
from sessions_app.models_lists import ListColumns, SavedView
from sessions_app.shown import clipped, visible

MOST_VIEWS = 50
"""Of one person, for one list."""
MOST_SHOWN = 200
LONGEST_QUERY = 4000
MAY_SHARE = "sessions_app.share_savedview"
_NOT_OF_A_VIEW = (*POSITION, "e", "_facets")

Column = str | Callable[..., Any]


class ArrangedList(HubAdmin):
    """A list with a choice of columns and with saved views."""

    list_before_template = "admin/hub/above_list.html"
    more_columns: Sequence[Column] = ()
    """What is offered beside `list_display`, and not shown unless chosen."""

    # Columns ---------------------------------------------------------------------------------------

    def offered(self) -> dict[str, Column]:
        """Give the columns there are, by the names that addresses use."""
        return {_name_of(column): column for column in (*self.list_display, *self.more_columns)}

    def chosen(self, request: HttpRequest) -> list[str]:
        """Give the names of the columns that are shown: of the address, or the reader's, or the usual ones."""
        kept: list[str] | None = getattr(request, "_hub_columns", None)
        if kept is None:
            usual = [_name_of(column) for column in self.list_display]
            asked = request.GET.get(COLUMNS, "")
            wanted = asked.split(",") if asked else self._remembered(request)
            offered = self.offered()
            kept = list(dict.fromkeys(name for name in wanted if name in offered)) or usual
            unknown = sorted(set(wanted) - offered.keys())
            if asked and unknown:
                messages.warning(
                    request,
                    _t("This list has no column %(names)s. It has: %(known)s.")
                    % {"names": clipped(", ".join(unknown), 200), "known": ", ".join(offered)},
                )
            request._hub_columns = kept  # type: ignore[attr-defined]  # it lasts as long as the request
        return kept

    def get_list_display(self, request: HttpRequest) -> Any:
        offered = self.offered()
        return [offered[name] for name in self.chosen(request)]

    def get_list_display_links(self, request: HttpRequest, list_display: Any) -> Any:
        """Let the usual column lead to the row, or the first one where that is not shown."""
        usual = [column for column in self.list_display_links or () if column in list_display]
        return usual or list(list_display)[:1]

    def _remembered(self, request: HttpRequest) -> list[str]:
        row = ListColumns.objects.filter(owner=request.user.pk, page=self._page).first()
        return row.columns if row is not None else []

    # The page --------------------------------------------------------------------------------------

    @property
    def _page(self) -> str:
        return self.opts.label_lower

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied
        context = self._arranged(request) if request.method == "GET" else {}
        return super().changelist_view(request, {**context, **(extra_context or {})})

    def _arranged(self, request: HttpRequest) -> dict[str, Any]:
        chosen = self.chosen(request)
        current = _normal(request.GET)
        views = []
        for view in self._views(request).order_by("name", "pk")[:MOST_SHOWN]:
            is_active = _pairs(QueryDict(view.query)) == _pairs(current)
            views.append({
                "pk": view.pk, "name": view.name, "words": clipped(view.name, 40), "title": visible(view.name),
                "is_shared": view.is_shared, "is_active": is_active, "query": view.query,
                "may_change": is_active and may_change(request, view),
            })  # fmt: skip
        columns = [
            {"name": name, "words": self._title(column), "is_chosen": name in chosen}
            for name, column in self.offered().items()
        ]
        current[COLUMNS] = ",".join(chosen)
        return {
            "arranged": {
                "views": views, "active": next((view for view in views if view["is_active"]), None),
                "columns": columns, "query": current.urlencode(safe=","), "may_share": request.user.has_perm(MAY_SHARE),
                "address": reverse(f"admin:{self._route}_changelist"),
            }
        }  # fmt: skip

    def _title(self, column: Column) -> str:
        return capfirst(str(label_for_field(column, self.model, self)))

    # What is changed -------------------------------------------------------------------------------

    @property
    def _route(self) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}"

    def get_urls(self) -> list[Any]:
        view = self.admin_site.admin_view
        return [
            path("columns/", view(self.columns_view), name=f"{self._route}_columns"),
            path("views/", view(self.save_view), name=f"{self._route}_views"),
            path("views/<int:pk>/", view(self.change_saved_view), name=f"{self._route}_view"),
            path("views/<int:pk>/delete/", view(self.delete_saved_view), name=f"{self._route}_view_delete"),
            *super().get_urls(),
        ]

    def columns_view(self, request: HttpRequest) -> HttpResponse:
        """Remember the columns that the form names; none: the usual ones."""
        self._check(request)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        query = _normal(QueryDict(request.POST.get("query", "")[:LONGEST_QUERY], mutable=True))
        offered = self.offered()
        wanted = [name for name in request.POST.getlist("column") if name in offered]
        query.pop(COLUMNS, None)
        if "usual" in request.POST or not wanted:
            ListColumns.objects.filter(owner=request.user.pk, page=self._page).delete()
        else:
            ListColumns.objects.update_or_create(
                owner_id=request.user.pk, page=self._page, defaults={"columns": wanted}
            )  # fmt: skip
            query[COLUMNS] = ",".join(wanted)
        return self._back(query)

    def save_view(self, request: HttpRequest) -> HttpResponse:
        """Save what the form's query shows, under its name; a view of the person with that name becomes this one."""
        self._check(request)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        written = request.POST.get("query", "")
        query = _normal(QueryDict(written[:LONGEST_QUERY], mutable=True))
        name = self._name(request)
        own = SavedView.objects.filter(owner=request.user.pk, page=self._page)
        if len(written) > LONGEST_QUERY:
            messages.error(request, _t("This list has too many filters to be saved. Take some out."))
        elif name and not own.filter(name=name).exists() and own.count() >= MOST_VIEWS:
            words = _t("You have %(most)d views of this list already. Delete one first.")
            messages.error(request, words % {"most": MOST_VIEWS})
        elif name:
            is_shared = self._sharing(request)
            _view, is_new = own.update_or_create(
                name=name,
                defaults={"query": query.urlencode(safe=","), "is_shared": is_shared},
                create_defaults={
                    "query": query.urlencode(safe=","), "is_shared": is_shared, "owner_id": request.user.pk or 0,
                    "page": self._page, "name": name,
                },
            )  # fmt: skip
            said = _t("View “%(name)s” saved.") if is_new else _t("View “%(name)s” now shows this list.")
            messages.success(request, said % {"name": clipped(name, 60)})
        return self._back(query)

    def change_saved_view(self, request: HttpRequest, pk: int) -> HttpResponse:
        """Rename a view, and share it or no longer."""
        view = self._changeable(request, pk)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        name = self._name(request)
        if name and SavedView.objects.filter(owner=view.owner_id, page=view.page, name=name).exclude(pk=pk).exists():
            messages.error(request, _t("Another view has this name already. Choose one of its own."))
        elif name:
            view.name = name
            if request.user.has_perm(MAY_SHARE):
                view.is_shared = "is_shared" in request.POST
            view.save(update_fields=["name", "is_shared"])
            messages.success(request, _t("View “%(name)s” changed.") % {"name": clipped(name, 60)})
        return self._back(QueryDict(view.query))

    def delete_saved_view(self, request: HttpRequest, pk: int) -> HttpResponse | TemplateResponse:
        view = self._changeable(request, pk)
        back = f"{reverse(f'admin:{self._route}_changelist')}?{view.query}"
        asked = self.confirmation(
            request, title=_t("Delete this view?"), items=[(clipped(view.name, 60), "")],
            explanation=_t("Everybody who uses it loses it. Nothing else is changed. This cannot be undone.")
            if view.is_shared
            else _t("Nothing else is changed. This cannot be undone."),
            button=_t("Delete"), back=back, danger=True,
        )  # fmt: skip
        if asked is not None:
            return asked
        view.delete()
        messages.success(request, _t("View “%(name)s” deleted.") % {"name": clipped(view.name, 60)})
        return self._back(QueryDict(view.query))

    def _check(self, request: HttpRequest) -> None:
        if not self.has_view_or_change_permission(request):
            raise PermissionDenied

    def _changeable(self, request: HttpRequest, pk: int) -> SavedView:
        self._check(request)
        view: SavedView | None = self._views(request).filter(pk=pk).first() if pk < 2**63 else None
        if view is None:
            raise Http404  # somebody else's is no view at all
        if not may_change(request, view):
            raise PermissionDenied
        return view

    def _views(self, request: HttpRequest) -> Any:
        return SavedView.objects.filter(Q(owner=request.user.pk) | Q(is_shared=True), page=self._page)

    def _name(self, request: HttpRequest) -> str:
        """Give the name that the form proposes, or say what is wrong with it and give none."""
        name = request.POST.get("name", "").strip().replace("\0", "")
        most = 60
        if not name:
            messages.error(request, _t("Give the view a name."))
        elif len(name) > most:
            messages.error(request, _t("Give the view a name of at most %(most)d characters.") % {"most": most})
            return ""
        return name

    def _sharing(self, request: HttpRequest) -> bool:
        return "is_shared" in request.POST and request.user.has_perm(MAY_SHARE)

    def _back(self, query: QueryDict) -> HttpResponse:
        return redirect(f"{reverse(f'admin:{self._route}_changelist')}?{query.urlencode(safe=',')}")


def may_change(request: HttpRequest, view: SavedView) -> bool:
    """Whether a person may rename or delete a view: its own, or a shared one with the right to share."""
    return view.owner_id == request.user.pk or (view.is_shared and request.user.has_perm(MAY_SHARE))


def _name_of(column: Column) -> str:
    word = column if isinstance(column, str) else column.__name__
    return word.removeprefix("shown_").removeprefix("listed_")


def _normal(query: QueryDict) -> QueryDict:
    """Give what of an address says what is seen."""
    kept = query.copy()
    for name in _NOT_OF_A_VIEW:
        kept.pop(name, None)
    return kept


def _pairs(query: QueryDict) -> list[tuple[str, str]]:
    return sorted((name, value) for name, values in query.lists() for value in values if value)
