"""Judges a form while it is being filled in, by the rules that saving obeys. Nothing is saved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse
from django.urls import URLPattern, path
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions_app.kit.admin.base import row_of

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin as _Pages
else:
    _Pages = object


class CheckedForm(_Pages):
    """Adds `…/check/`, which `check.js` asks after each pause in writing."""

    checked_fields: ClassVar[tuple[str, ...]] = ()
    """Fields whose errors are shown at once; the others may be incomplete."""

    class Media:
        js = ["mcphub/check.js"]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.check_view)
        name = f"{self.opts.app_label}_{self.opts.model_name}_check"
        return [
            path("add/check/", view, name=f"{name}_new"),
            path("<path:object_id>/check/", view, name=name),
            *super().get_urls(),
        ]

    def check_view(self, request: HttpRequest, object_id: str | None = None) -> HttpResponse:
        row = row_of(self, request, object_id) if object_id is not None else None
        may = self.has_add_permission(request) if row is None else self.has_change_permission(request, row)
        if not may:
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        form = self.get_form(request, row, change=row is not None)(request.POST, instance=row)
        is_valid = form.is_valid()
        told = {name: list(form.errors.get(name, [])) for name in self.checked_fields if name in form.fields}
        return JsonResponse({"errors": told, "preview": self.preview_of(form.instance if is_valid else None)})

    def preview_of(self, row: Any) -> SafeString | str:
        """Return the HTML, made by `previewed`, of the effect of saving; None: the row is invalid."""
        return ""


def previewed(shown: object) -> SafeString:
    """Mark a preview, so that the script puts the next one there."""
    return format_html('<div id="hub-preview" aria-live="polite">{}</div>', shown)
