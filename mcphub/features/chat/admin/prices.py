"""The page of prices of models. People write money with its decimals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from mcphub.features.chat.models import ChatModelPrice
from mcphub.features.quotas import amounts
from mcphub.features.quotas.forms import MoneyField
from sessions_app.history.pages import RecordedAdmin
from sessions_app.kit.admin.base import moment
from sessions_app.kit.admin.check import CheckedForm
from sessions_app.kit.shown import mono

if TYPE_CHECKING:
    _FormBase = forms.ModelForm[ChatModelPrice]
else:
    _FormBase = forms.ModelForm

_MONEY = ("input_millionths", "cached_millionths", "output_millionths")
_CHANGED = moment("updated_at", _("changed"))
_REGISTERED = moment("created_at", _("registered"))


class PriceForm(_FormBase):
    class Meta:
        model = ChatModelPrice
        exclude: list[str] = []
        field_classes = dict.fromkeys(_MONEY, MoneyField)


@admin.register(ChatModelPrice)
class ChatModelPriceAdmin(CheckedForm, RecordedAdmin):
    form = PriceForm
    checked_fields = ("name", "model", *_MONEY)
    list_display = [
        "shown_name",
        "provider",
        "model",
        "shown_read",
        "shown_cached",
        "shown_written",
        moment("valid_from", _("valid from")),
    ]
    list_display_links = ["shown_name"]
    list_filter = ["provider"]
    list_select_related = ["provider"]
    search_fields = ["name", "model"]
    readonly_fields = [_REGISTERED, _CHANGED]
    fieldsets = [
        (None, {"fields": ["name", "provider", "model"]}),
        (_("Money, in the hub's currency"), {"fields": [*_MONEY]}),
        (_("Validity"), {"fields": ["valid_from", _REGISTERED, _CHANGED]}),
    ]

    @admin.display(description=_("name"), ordering="name")
    def shown_name(self, row: ChatModelPrice) -> SafeString:
        return mono(row.name)

    @admin.display(description=_("per million input tokens"), ordering="input_millionths")
    def shown_read(self, row: ChatModelPrice) -> str:
        return amounts.shown(row.input_millionths, amounts.MONEY)

    @admin.display(description=_("cached"))
    def shown_cached(self, row: ChatModelPrice) -> str:
        return "-" if row.cached_millionths is None else amounts.shown(row.cached_millionths, amounts.MONEY)

    @admin.display(description=_("per million output tokens"), ordering="output_millionths")
    def shown_written(self, row: ChatModelPrice) -> str:
        return amounts.shown(row.output_millionths, amounts.MONEY)

    def get_readonly_fields(self, request: HttpRequest, obj: ChatModelPrice | None = None) -> list[str]:
        # Rounds on record name it, so the name stays.
        return [*self.readonly_fields, *(["name"] if obj is not None else [])]
