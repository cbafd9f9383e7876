"""The page of rate limits: the content of each bucket, and an action to refill it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.contrib.admin.views.main import ChangeList
from django.db import transaction
from django.db.models import F, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.history import events
from sessions_app.kit.admin.base import UncountedAdmin, mark, moment
from sessions_app.kit.admin.parts import column
from sessions_app.kit.shown import cell, clipped, mono, rounded
from sessions_app.models import ApiKey, RateLimitBucket

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
    fields: ClassVar[Any] = ["shown_client", "shown_holder", "level", "refill", "request_count", _FILLED, _LAST]

    class Media:
        js = ["mcphub/refresh.js"]

    shown_client = column(_("client"), lambda bucket: mono(bucket.client_id))

    def get_changelist_instance(self, request: HttpRequest) -> ChangeList:
        """Return the list with the names of the keys, read for all rows at once."""
        listed = super().get_changelist_instance(request)
        listed.result_list = rows = list(listed.result_list)
        names = dict(ApiKey.objects.filter(pk__in=filter(None, map(_key_of, rows))).values_list("pk", "name"))
        for row in rows:
            row.holder = names.get(_key_of(row) or 0, "")
        return listed

    @admin.display(description=_("API key"))
    def shown_holder(self, bucket: RateLimitBucket) -> SafeString | str:
        name = getattr(bucket, "holder", None)
        if name is None:  # on the page of one bucket
            name = ApiKey.objects.filter(pk=_key_of(bucket) or 0).values_list("name", flat=True).first()
        return cell(name) if name else "-"

    @admin.display(description=_("remaining"))
    def level(self, bucket: RateLimitBucket) -> SafeString:
        now = bucket.level(timezone.now())
        words = f"{rounded(now)} / {bucket.capacity}"
        return mark("bad" if now < 1 else "warn" if now < bucket.capacity / 4 else "good", words)

    refill = column(_("one more every"), lambda bucket: f"{rounded(1 / bucket.refill_per_second)} s")

    def has_fill_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("sessions_app.change_ratelimitbucket")

    @admin.action(description=_("Refill the selected rate limits"), permissions=["fill"])
    def fill(self, request: HttpRequest, queryset: QuerySet[RateLimitBucket]) -> HttpResponse | None:
        back = request.get_full_path()
        page = self.confirmation_of(
            request,
            queryset,
            "fill",
            lambda count: ngettext("Refill %(count)d rate limit?", "Refill %(count)d rate limits?", count),
            _t("Their limits are refilled, so their clients can call at the full rate again."),
            _t("Refill"),
            reason=True,
        )
        if page is not None:
            return page
        reason = request.POST.get("reason", "").strip()
        filled = _t("Refilled")
        rows = []
        for bucket in queryset:
            before = f"{rounded(bucket.level(timezone.now()))} / {bucket.capacity}"
            with transaction.atomic():
                RateLimitBucket.objects.filter(pk=bucket.pk).update(tokens=F("capacity"))
                events.record(
                    "ratelimitbucket.filled",
                    model=RateLimitBucket,
                    subject=bucket.pk,
                    label=bucket.client_id,
                    before={"level": before},
                    after={"level": f"{bucket.capacity} / {bucket.capacity}"},
                    reason=reason,
                )
            rows.append((clipped(bucket.client_id, 80), mark("good", filled), before))
        words = ngettext("%(count)d rate limit refilled.", "%(count)d rate limits refilled.", len(rows)) % {
            "count": len(rows)
        }
        self.message_user(request, words, messages.SUCCESS)
        return self.outcomes_page(request, title=_t("Result"), rows=rows, back=back)


def _key_of(bucket: RateLimitBucket) -> int | None:
    """Return the number of the bucket's key, or None."""
    kind, _colon, rest = bucket.client_id.partition(":")
    number = rest.partition(" ")[0]
    return int(number) if kind == "key" and number.isdecimal() else None
