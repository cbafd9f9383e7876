"""The page of rate limits: what is in each bucket now, and a way to fill it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.admin_base import UncountedAdmin, mark, moment, names_and_count
from sessions_app.models import ApiKey, RateLimitBucket
from sessions_app.shown import cell, clipped, mono

_LAST = moment("last_request", _("last request"))
_FILLED = moment("last_refill", _("last refill"))


@admin.register(RateLimitBucket)
class RateLimitBucketAdmin(UncountedAdmin):
    list_display = ["shown_client", "shown_holder", "level", "refill", "request_count", _LAST]
    list_display_links = ["shown_client"]
    search_fields = ["client_id"]
    ordering = ["-last_request"]
    actions = ["fill"]
    list_before_template = "admin/hub/refresh.html"
    readonly_fields = ["shown_client", "shown_holder", "level", "refill", "request_count", _FILLED, _LAST]
    fields: ClassVar[Any] = readonly_fields

    class Media:
        js = ["mcphub/refresh.js"]

    @admin.display(description=_("client"))
    def shown_client(self, bucket: RateLimitBucket) -> SafeString:
        return mono(bucket.client_id)

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        """Give the list with the names of the keys, read for all rows at once."""
        listed = super().get_changelist_instance(request)
        listed.result_list = rows = list(listed.result_list)
        names = dict(ApiKey.objects.filter(pk__in=filter(None, map(_key_of, rows))).values_list("pk", "name"))
        for row in rows:
            row.holder = names.get(_key_of(row) or 0, "")
        return listed

    @admin.display(description=_("API key"))
    def shown_holder(self, bucket: Any) -> SafeString | str:
        name = getattr(bucket, "holder", None)
        if name is None:  # on the page of one bucket
            name = ApiKey.objects.filter(pk=_key_of(bucket) or 0).values_list("name", flat=True).first()
        return cell(name) if name else "-"

    @admin.display(description=_("left now"))
    def level(self, bucket: RateLimitBucket) -> SafeString:
        now = bucket.level(timezone.now())
        words = f"{number_format(now, 1)} / {bucket.capacity}"
        return mark("bad" if now < 1 else "warn" if now < bucket.capacity / 4 else "good", words)

    @admin.display(description=_("one more every"))
    def refill(self, bucket: RateLimitBucket) -> str:
        return f"{number_format(1 / bucket.refill_per_second, 1)} s"

    def has_fill_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("sessions_app.change_ratelimitbucket")

    @admin.action(description=_("Fill the selected buckets"), permissions=["fill"])
    def fill(self, request: HttpRequest, queryset: QuerySet[RateLimitBucket]) -> Any:
        names, count = names_and_count(queryset)
        back = request.get_full_path()
        page = self.confirmation(
            request, title=ngettext("Fill %(count)d bucket?", "Fill %(count)d buckets?", count) % {"count": count},
            items=names, explanation=_t("Their clients may at once call as often as after a long pause."),
            button=_t("Fill"), back=back, action="fill", reason=True,
            selected=list(queryset.values_list("pk", flat=True)),
        )  # fmt: skip
        if page is not None:
            return page
        reason = request.POST.get("reason", "").strip()[:100]
        filled = _t("Filled")
        rows = []
        for bucket in queryset:
            before = f"{number_format(bucket.level(timezone.now()), 1)} / {bucket.capacity}"
            RateLimitBucket.objects.filter(pk=bucket.pk).update(tokens=F("capacity"))
            self.log_change(request, bucket, f"{filled}. {reason}".strip())
            rows.append((clipped(bucket.client_id, 80), mark("good", filled), before))
        words = ngettext("%(count)d bucket filled.", "%(count)d buckets filled.", len(rows)) % {"count": len(rows)}
        self.message_user(request, words, messages.SUCCESS)
        return self.outcomes_page(request, title=_t("What was done"), rows=rows, back=back)


def _key_of(bucket: RateLimitBucket) -> int | None:
    """Give the number of the key whose calls the bucket bounds, or None."""
    kind, _colon, rest = bucket.client_id.partition(":")
    number = rest.partition(" ")[0]
    return int(number) if kind == "key" and number.isdecimal() else None
