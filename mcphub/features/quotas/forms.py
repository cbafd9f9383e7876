"""Fields of forms in which people write money with its decimals, and rows keep it in millionths."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _t

from mcphub.features.quotas.amounts import MILLION, MONEY, decimal_of
from mcphub.features.quotas.models import McpQuota

if TYPE_CHECKING:
    _QuotaForm = forms.ModelForm[McpQuota]
else:
    _QuotaForm = forms.ModelForm

_PLACES = 6
_LIMITS = ("soft_limit", "hard_limit")


class AmountField(forms.DecimalField):
    """A number as people write it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(decimal_places=_PLACES, **options)

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {**super().widget_attrs(widget), "step": "any"}


class MoneyField(AmountField):
    """Money. The row has millionths."""

    def prepare_value(self, value: Any) -> Any:
        return decimal_of(value) if isinstance(value, int) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return super().has_changed(decimal_of(initial) if isinstance(initial, int) else initial, data)

    def clean(self, value: Any) -> Any:
        given = super().clean(value)
        return None if given is None else int(given * MILLION)


class QuotaForm(_QuotaForm):
    class Meta:
        model = McpQuota
        exclude: list[str] = []
        field_classes = dict.fromkeys(_LIMITS, AmountField)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if self.instance.unit == MONEY:
            shown = {name: self.initial[name] for name in _LIMITS if self.initial.get(name) is not None}
            self.initial = {**self.initial, **{name: decimal_of(value) for name, value in shown.items()}}

    def clean_soft_limit(self) -> int | None:
        return self._limit("soft_limit")

    def clean_hard_limit(self) -> int | None:
        return self._limit("hard_limit")

    def _limit(self, name: str) -> int | None:
        given: Decimal | None = self.cleaned_data.get(name)
        if given is None:
            return None
        is_money = self.cleaned_data.get("unit") == MONEY
        amount = given * MILLION if is_money else given
        if amount != int(amount):
            raise ValidationError(_t("Enter a whole number. Only money has decimals."))
        return int(amount)
