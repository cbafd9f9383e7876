"""Amounts of quotas in words. Money is a whole number of millionths of the hub's one currency, never a float."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from django.conf import settings
from django.utils.formats import number_format
from django.utils.translation import gettext as _t
from django.utils.translation import ngettext

from sessions_app.kit.shown import size

CALLS, BYTES, TOKENS, MONEY = "calls", "bytes", "tokens", "money"
UNITS = (CALLS, BYTES, TOKENS, MONEY)
MILLION = 1_000_000
_CENT = Decimal("0.01")
_SENTENCES = {CALLS: "%s calls", BYTES: "%s bytes of arguments and results", TOKENS: "%s tokens"}


def currency() -> str:
    """Return the currency of all prices and quotas of money."""
    return str(settings.MCPHUB_CURRENCY)


def decimal_of(millionths: int) -> Decimal:
    """Return money without a loss."""
    return Decimal(millionths) / MILLION


def cents_of(millionths: int) -> Decimal:
    """Return money with two decimals, a half of the last one rounded up."""
    return decimal_of(millionths).quantize(_CENT, ROUND_HALF_UP)


def said(number: int, unit: str) -> str:
    """Return an amount in English, for errors and the command line."""
    if unit == MONEY:
        cents = cents_of(number)
        return f"{'<0.01' if number and not cents else cents} {currency()}"
    return _SENTENCES[unit] % number


def shown(number: int, unit: str) -> str:
    """Return an amount in the language that is active. Calls stand there as a bare number."""
    if unit == BYTES:
        return size(number)
    if unit == MONEY:
        cents = cents_of(number)
        figure = number_format(cents or _CENT, 2, force_grouping=True)
        if not number:
            figure = number_format(cents, 2)
        return f"{'<' if number and not cents else ''}{figure} {currency()}"
    figure = number_format(number, force_grouping=True)
    if unit == TOKENS:
        return ngettext("%(count)s token", "%(count)s tokens", number) % {"count": figure}
    return figure


def remarks(estimated: int, unpriced: int, unit: str) -> list[str]:
    """Return notes on uncertain sums."""
    found = []
    if estimated:
        found.append(_t("%(amount)s of it estimated") % {"amount": shown(estimated, unit)})
    if unpriced:
        found.append(
            ngettext("no price for %(count)d model request", "no price for %(count)d model requests", unpriced)
            % {"count": unpriced}
        )
    return found
