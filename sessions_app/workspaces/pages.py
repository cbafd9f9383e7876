"""Pages of tables that are partly owned by workspaces: their content within one."""

from __future__ import annotations

from typing import Any

from django.db.models import Model
from django.http import HttpRequest, HttpResponse

from sessions_app.kit.admin.base import HubAdmin
from sessions_app.kit.admin.filters import controls
from sessions_app.workspaces import acting, scope

_OF_THE_HUB = frozenset({"workspace", "groups"})
"""Fields that define visibility, for operators of the hub. In a workspace its people do."""


_NAMES_OTHERS = frozenset({"group", "groups", "service"})
"""Filters that offer names of the whole hub."""


class WorkspacePages(HubAdmin):
    """Pages available in a workspace, without links that lead out of it."""

    workspace_pages: tuple[str, ...] = ("changelist", "change")
    """The pages of the table that are, by the last word of their names."""
    other_workspace_pages: tuple[str, ...] = ()
    """The same, by their whole names."""

    def __init__(self, model: type[Model], admin_site: Any) -> None:
        super().__init__(model, admin_site)
        meta = model._meta
        acting.PAGES.update(f"{meta.app_label}_{meta.model_name}_{page}" for page in self.workspace_pages)
        acting.PAGES.update(self.other_workspace_pages)

    def get_list_filter(self, request: HttpRequest) -> Any:
        if scope.current() is None:
            return super().get_list_filter(request)
        return controls(tuple(each for each in self.filters if each.name not in _NAMES_OTHERS))

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        shown = super().get_fieldsets(request, obj)
        if scope.current() is None:
            return shown
        return [(title, {**options, "fields": _within(options["fields"])}) for title, options in shown]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        fields = super().get_fields(request, obj)
        return fields if scope.current() is None else _within(fields)

    def formfield_for_foreignkey(self, db_field: Any, request: HttpRequest, **kwargs: Any) -> Any:
        """Show a row's workspace to people who may not move rows."""
        field = super().formfield_for_foreignkey(db_field, request, **kwargs)
        is_edit = request.resolver_match is not None and "object_id" in request.resolver_match.kwargs
        if field is not None and db_field.name == "workspace" and is_edit:
            field.disabled = not request.user.has_perm(scope.MOVES)
        return field

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any
    ) -> HttpResponse:
        if scope.current() is not None and "history" not in self.workspace_pages:
            context["show_history"] = False
        return super().render_change_form(request, context, *args, **kwargs)

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> Any:
        found = super().get_actions_detail(request, object_id)
        return found if scope.current() is None else [each for each in found if self._leads_within(each.action_name)]

    def get_actions_list(self, request: HttpRequest) -> Any:
        found = super().get_actions_list(request)  # type: ignore[misc, unused-ignore]
        return found if scope.current() is None else [each for each in found if self._leads_within(each.action_name)]

    def _leads_within(self, action: str) -> bool:
        return action in acting.PAGES


def _within(fields: Any) -> list[Any]:
    return [each for each in fields if each not in _OF_THE_HUB]
