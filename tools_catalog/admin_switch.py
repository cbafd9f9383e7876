"""The actions that switch selected rows on and off, after the operator has confirmed it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.admin_base import mark, names_and_count

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

    from sessions_app.admin_base import HubAdmin as _Pages
else:
    _Pages = object


class SwitchActions(_Pages):
    """For the admin of rows with `enabled` and a `Switchable` manager."""

    def switch_words(self, enabled: bool, count: int) -> tuple[str, str, str]:
        """Give the question, what will happen, and what is said afterwards; with %(count)d and %(names)s."""
        raise NotImplementedError

    @admin.display(description=_("state"), ordering="enabled")
    def state(self, row: Any) -> SafeString:
        return mark("good", _("Enabled")) if row.enabled else mark("off", _("Disabled"))

    @admin.action(description=_("Enable the selected"), permissions=["change"])
    def enable_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return self._switch(request, queryset, True)

    @admin.action(description=_("Disable the selected"), permissions=["change"])
    def disable_selected(self, request: HttpRequest, queryset: QuerySet[Any]) -> Any:
        return self._switch(request, queryset, False)

    def _switch(self, request: HttpRequest, queryset: QuerySet[Any], enabled: bool) -> Any:
        names, count = names_and_count(queryset.exclude(enabled=enabled))
        total = queryset.count()
        question, explanation, _done = self.switch_words(enabled, count)
        if total > count:
            unchanged = ngettext("%(count)d is so already.", "%(count)d are so already.", total - count)
            explanation = f"{explanation} {unchanged % {'count': total - count}}"
        page = self.confirmation(
            request, title=question % {"count": count}, items=names, explanation=explanation, reason=True,
            button=_t("Enable") if enabled else _t("Disable"), back=request.get_full_path(), danger=not enabled,
            action="enable_selected" if enabled else "disable_selected",
            selected=list(queryset.values_list("pk", flat=True)),
        )  # fmt: skip
        if page is not None:
            return page
        changed = queryset.set_enabled(enabled, request.POST.get("reason", ""))  # type: ignore[attr-defined]
        done = self.switch_words(enabled, changed)[2]
        shown = ", ".join(name for name, _remark in names[:20]) or "-"
        self.message_user(request, done % {"count": changed, "names": shown}, messages.SUCCESS)
        return None
