"""The page of embedding models."""

from __future__ import annotations

from django.contrib import admin
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.embeddings.models import EmbeddingSource, EmbeddingUse
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import moment
from sessions_app.kit.shown import rounded, visible

_CHANGED = moment("updated_at", _("changed"))


@admin.register(EmbeddingSource)
class EmbeddingSourceAdmin(RecordedAdmin):
    list_display = ["provider", "model", "enabled", "shown_use", _CHANGED]
    list_select_related = ["provider", "use"]
    search_fields = ["provider__slug", "model"]
    readonly_fields = ["shown_use", "shown_failure", _CHANGED]
    fieldsets = [
        (None, {"fields": ["provider", "model", "dimensions", "timeout_seconds", "enabled"]}),
        (_("Status"), {"fields": ["shown_use", "shown_failure", _CHANGED]}),
    ]

    @admin.display(description=_("use"))
    def shown_use(self, row: EmbeddingSource) -> str:
        use = _use(row)
        if use is None:
            return "-"
        cost = rounded(use.cost_millionths / 1e6, 6)
        return _t("%(tokens)s tokens, cost %(cost)s") % {"tokens": number_format(use.tokens), "cost": cost}

    @admin.display(description=_("last failure"))
    def shown_failure(self, row: EmbeddingSource) -> SafeString | str:
        use = _use(row)
        if use is None or use.failed_at is None:
            return "-"
        return format_html("{:%Y-%m-%d %H:%M:%S} {}", timezone.localtime(use.failed_at), visible(use.failure))


def _use(row: EmbeddingSource) -> EmbeddingUse | None:
    return getattr(row, "use", None)
