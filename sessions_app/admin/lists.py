"""Lists that people arrange for themselves: columns to choose from, and views that are saved under a name.

A list's address contains the whole view: filters, search, order and, as `columns=time,status`, the columns. So a
saved view is an address with a name. Where the address names no columns, those that the reader chose last are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from django.contrib import admin, messages
from django.contrib.admin.utils import label_for_field
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext as _t

from sessions_app.kit.admin.base import HubAdmin
from sessions_app.kit.admin.changelist import COLUMNS, POSITION
from sessions_app.kit.admin.parts import Column, ListPart
from sessions_app.kit.shown import clipped, visible
from sessions_app.models.lists import ListColumns, SavedView
from sessions_app.workspaces import scope

MOST_VIEWS = 50
"""Of one person, for one list."""
MOST_SHOWN = 200
LONGEST_QUERY = 4000
MAY_SHARE = "sessions_app.share_savedview"
_NOT_OF_A_VIEW = (*POSITION, "e", "_facets")


class Arrangement(ListPart):
    """A choice of columns, and saved views. The page has `admin/hub/above_list.html`, or a template made of it."""

    def __init__(self, *more: Column) -> None:
        """`more` are offered beside the page's `list_display`, and not shown unless chosen."""
        self.more = more

    def urls(self, page: HubAdmin) -> list[URLPattern]:
        def view(answer: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
            return page.admin_site.admin_view(partial(answer, page))

        route = _route(page)
        return [
            path("columns/", view(self.columns_view), name=f"{route}_columns"),
            path("views/", view(self.save_view), name=f"{route}_views"),
            path("views/<int:pk>/", view(self.change_saved_view), name=f"{route}_view"),
            path("views/<int:pk>/delete/", view(self.delete_saved_view), name=f"{route}_view_delete"),
        ]

    # Columns ---------------------------------------------------------------------------------------

    def offered(self, page: HubAdmin) -> dict[str, Column]:
        """Return the columns there are, by the names that addresses use."""
        return {_name_of(column): column for column in (*page.list_display, *self.more)}

    def chosen(self, page: HubAdmin, request: HttpRequest) -> list[str]:
        """Return the names of the columns that are shown: of the address, or the reader's, or the usual ones."""
        kept: list[str] | None = getattr(request, "_hub_columns", None)
        if kept is None:
            usual = [_name_of(column) for column in page.list_display]
            asked = request.GET.get(COLUMNS, "")
            wanted = asked.split(",") if asked else _remembered(page, request)
            offered = self.offered(page)
            kept = list(dict.fromkeys(name for name in wanted if name in offered)) or usual
            unknown = sorted(set(wanted) - offered.keys())
            if asked and unknown:
                messages.warning(
                    request,
                    _t("This list has no column %(names)s. Available columns: %(known)s.")
                    % {"names": clipped(", ".join(unknown), 200), "known": ", ".join(offered)},
                )
            request._hub_columns = kept  # type: ignore[attr-defined]  # it lasts as long as the request
        return kept

    def columns(self, page: HubAdmin, request: HttpRequest, usual: list[Column]) -> list[Column]:
        offered = self.offered(page)
        return [offered[name] for name in self.chosen(page, request)]

    # The page --------------------------------------------------------------------------------------

    def context(self, page: HubAdmin, request: HttpRequest) -> dict[str, object]:
        if request.method != "GET":
            return {}
        chosen = self.chosen(page, request)
        current = normal(request.GET)
        views = []
        for view in _views(page, request).order_by("name", "pk")[:MOST_SHOWN]:
            is_active = _pairs(QueryDict(view.query)) == _pairs(current)
            views.append(
                {
                    "pk": view.pk,
                    "name": view.name,
                    "words": clipped(view.name, 40),
                    "title": visible(view.name),
                    "is_shared": view.is_shared,
                    "is_active": is_active,
                    "query": view.query,
                    "may_change": is_active and may_change(request, view),
                }
            )
        columns = [
            {
                "name": name,
                "words": capfirst(str(label_for_field(column, page.model, page))),
                "is_chosen": name in chosen,
            }
            for name, column in self.offered(page).items()
        ]
        current[COLUMNS] = ",".join(chosen)
        return {
            "arranged": {
                "views": views,
                "active": next((view for view in views if view["is_active"]), None),
                "columns": columns,
                "query": current.urlencode(safe=","),
                "may_share": request.user.has_perm(MAY_SHARE),
                "address": _address(page),
            }
        }

    # What is changed -------------------------------------------------------------------------------

    def columns_view(self, page: HubAdmin, request: HttpRequest) -> HttpResponse:
        """Remember the columns that the form names; none: the usual ones."""
        _check(page, request)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        query = normal(QueryDict(request.POST.get("query", "")[:LONGEST_QUERY], mutable=True))
        offered = self.offered(page)
        wanted = [name for name in request.POST.getlist("column") if name in offered]
        query.pop(COLUMNS, None)
        if "usual" in request.POST or not wanted:
            ListColumns.objects.filter(owner=request.user.pk, page=page.opts.label_lower).delete()
        else:
            ListColumns.objects.update_or_create(
                owner_id=request.user.pk, page=page.opts.label_lower, defaults={"columns": wanted}
            )
            query[COLUMNS] = ",".join(wanted)
        return _back(page, query)

    def save_view(self, page: HubAdmin, request: HttpRequest) -> HttpResponse:
        """Save the view of the form's query under its name; it replaces the person's view with that name."""
        _check(page, request)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        written = request.POST.get("query", "")
        query = normal(QueryDict(written[:LONGEST_QUERY], mutable=True))
        name = _name(request)
        own = SavedView.objects.filter(owner=request.user.pk, page=page.opts.label_lower)
        if len(written) > LONGEST_QUERY:
            messages.error(request, _t("This list has too many filters to save. Remove some."))
        elif name and not own.filter(name=name).exists() and own.count() >= MOST_VIEWS:
            words = _t("You have %(most)d views of this list, the maximum. Delete one first.")
            messages.error(request, words % {"most": MOST_VIEWS})
        elif name:
            is_shared = _sharing(request)
            _view, is_new = own.update_or_create(
                name=name,
                defaults={"query": query.urlencode(safe=","), "is_shared": is_shared},
                create_defaults={
                    "query": query.urlencode(safe=","),
                    "is_shared": is_shared,
                    "owner_id": request.user.pk or 0,
                    "page": page.opts.label_lower,
                    "name": name,
                },
            )
            said = _t("View “%(name)s” saved.") if is_new else _t("View “%(name)s” now shows this list.")
            messages.success(request, said % {"name": clipped(name, 60)})
        return _back(page, query)

    def change_saved_view(self, page: HubAdmin, request: HttpRequest, pk: int) -> HttpResponse:
        """Rename a view, and share it or no longer."""
        view = _changeable(page, request, pk)
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        name = _name(request)
        if name and SavedView.objects.filter(owner=view.owner_id, page=view.page, name=name).exclude(pk=pk).exists():
            messages.error(request, _t("Another view already has this name. Choose another."))
        elif name:
            view.name = name
            if request.user.has_perm(MAY_SHARE):
                view.is_shared = "is_shared" in request.POST
            view.save(update_fields=["name", "is_shared"])
            messages.success(request, _t("View “%(name)s” changed.") % {"name": clipped(name, 60)})
        return _back(page, QueryDict(view.query))

    def delete_saved_view(self, page: HubAdmin, request: HttpRequest, pk: int) -> HttpResponse | TemplateResponse:
        view = _changeable(page, request, pk)
        back = f"{_address(page)}?{view.query}"
        asked = page.confirmation(
            request,
            title=_t("Delete this view?"),
            items=[(clipped(view.name, 60), "")],
            explanation=_t("The view disappears for all its users. Nothing else changes. This can't be undone.")
            if view.is_shared
            else _t("Nothing else changes. This can't be undone."),
            button=_t("Delete"),
            back=back,
            danger=True,
        )
        if asked is not None:
            return asked
        view.delete()
        messages.success(request, _t("View “%(name)s” deleted.") % {"name": clipped(view.name, 60)})
        return _back(page, QueryDict(view.query))


def arranged(request: HttpRequest) -> list[HubAdmin]:
    """Return the lists of which people save views, as far as this person may see them."""
    return [
        page
        for page in admin.site._registry.values()
        if isinstance(page, HubAdmin)
        and any(isinstance(part, Arrangement) for part in page.parts)
        and page.has_view_or_change_permission(request)
    ]


def _remembered(page: HubAdmin, request: HttpRequest) -> list[str]:
    row = ListColumns.objects.filter(owner=request.user.pk, page=page.opts.label_lower).first()
    return row.columns if row is not None else []


def _route(page: HubAdmin) -> str:
    return f"{page.opts.app_label}_{page.opts.model_name}"


def _address(page: HubAdmin) -> str:
    return reverse(f"admin:{_route(page)}_changelist")


def _check(page: HubAdmin, request: HttpRequest) -> None:
    if not page.has_view_or_change_permission(request):
        raise PermissionDenied


def _changeable(page: HubAdmin, request: HttpRequest, pk: int) -> SavedView:
    _check(page, request)
    view: SavedView | None = _views(page, request).filter(pk=pk).first() if pk < 2**63 else None
    if view is None:
        raise Http404  # somebody else's is no view at all
    if not may_change(request, view):
        raise PermissionDenied
    return view


def seen_by(request: HttpRequest) -> QuerySet[SavedView]:
    """Return the views that are a person's own, and those that others share: in a workspace the person's own alone.

    Shared views cover the whole hub, and their names may reveal its content.
    """
    mine, shared = Q(owner=request.user.pk), Q(is_shared=True)
    return SavedView.objects.filter(mine if scope.current() is not None else mine | shared)


def _views(page: HubAdmin, request: HttpRequest) -> QuerySet[SavedView]:
    return seen_by(request).filter(page=page.opts.label_lower)


def _name(request: HttpRequest) -> str:
    """Return the name in the form, or none with an error message."""
    name = request.POST.get("name", "").strip().replace("\0", "")
    most = 60
    if not name:
        messages.error(request, _t("Enter a name for the view."))
    elif len(name) > most:
        messages.error(request, _t("Enter a name of at most %(most)d characters.") % {"most": most})
        return ""
    return name


def _sharing(request: HttpRequest) -> bool:
    return "is_shared" in request.POST and request.user.has_perm(MAY_SHARE)


def _back(page: HubAdmin, query: QueryDict) -> HttpResponse:
    return redirect(f"{_address(page)}?{query.urlencode(safe=',')}")


def may_change(request: HttpRequest, view: SavedView) -> bool:
    """Return whether a person may rename or delete a view: its own, or a shared one with the right to share."""
    return view.owner_id == request.user.pk or (view.is_shared and request.user.has_perm(MAY_SHARE))


def _name_of(column: Column) -> str:
    word = column if isinstance(column, str) else column.__name__
    return word.removeprefix("shown_").removeprefix("listed_")


def normal(query: QueryDict) -> QueryDict:
    """Return the part of an address that defines the view."""
    kept = query.copy()
    for name in _NOT_OF_A_VIEW:
        kept.pop(name, None)
    return kept


def _pairs(query: QueryDict) -> list[tuple[str, str]]:
    return sorted((name, value) for name, values in query.lists() for value in values if value)
