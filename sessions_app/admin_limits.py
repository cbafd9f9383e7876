"""The page of rate limits: what is in each bucket now, and a way to fill it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib import admin, messages
from django.db.models import F, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from sessions_app.admin_base import UncountedAdmin, mark, moment
from sessions_app.models import ApiKey, RateLimitBucket
from sessions_app.shown import cell, mono

_LAST = moment("last_request", _("last request"))
_FILLED = moment("last_refill", _("last refill"))


@admin.register(RateLimitBucket)
class RateLimitBucketAdmin(UncountedAdmin):
    list_display = ["shown_client", "shown_holder", "level", "refill", "request_count", _LAST]
    list_display_links = ["shown_client"]
    search_fields = ["client_id"]
    ordering = ["-last_request"]
    sortable_by = ()
    actions = ["fill"]
    readonly_fields = ["shown_client", "shown_holder", "level", "refill", "request_count", _FILLED, _LAST]
    fields: ClassVar[Any] = readonly_fields

    @admin.display(description=_("client"))
    def shown_client(self, bucket: RateLimitBucket) -> SafeString:
        return mono(bucket.client_id)

    @admin.display(description=_("API key"))
    def shown_holder(self, bucket: RateLimitBucket) -> SafeString | str:
        kind, _colon, rest = bucket.client_id.partition(":")
        number = rest.partition(" ")[0]
        key = ApiKey.objects.filter(pk=number).first() if kind == "key" and number.isdecimal() else None
        return cell(key.name) if key is not None else "-"

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
    def fill(self, request: HttpRequest, queryset: QuerySet[RateLimitBucket]) -> None:
        filled = queryset.update(tokens=F("capacity"))
        words = ngettext("%(count)d bucket filled.", "%(count)d buckets filled.", filled) % {"count": filled}
        self.message_user(request, words, messages.SUCCESS)
