"""The accounts of a connection, as its page shows them: states and names, never a token."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.contrib.auth import get_user_model
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.admin.base import mark
from sessions_app.kit.shown import visible
from tools_catalog.models import HttpService, McpConnection, UpstreamAccount
from tools_catalog.models.accounts import SHARED
from tools_catalog.upstream.account import OF_PERSONS

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

_MOST: Final = 50
_MARKS: Final = {"wanted": "wait", "connected": "good", "ended": "bad"}
_NONE: Final = {
    McpConnection.Account.NONE: _("No authentication"),
    McpConnection.Account.CLIENT: _("The hub signs in automatically, with its first request."),
    McpConnection.Account.WORKLOAD: _("The hub signs in automatically, with its first request."),
    McpConnection.Account.BEHALF: _("The hub gets a token for each person with their first call."),
    McpConnection.Account.EXCHANGE: _("The hub gets a token for each person with their first call."),
    McpConnection.Account.JAG: _("The hub gets a token for each person with their first call."),
    McpConnection.Account.SHARED: _("Not connected. Press “Connect an account”."),
    McpConnection.Account.PERSONAL: _("No account is connected, and none is available to list the tools."),
}
_NOBODY: Final = _("No account is connected.")


def shown_accounts(row: McpConnection | HttpService) -> SafeString | str:
    """Return the states of the accounts, that of all first; of many the newest."""
    if row.account == McpConnection.Account.NONE:
        return str(_NONE[McpConnection.Account.NONE])
    accounts = row.accounts.select_related("registration").order_by("principal")
    found = list(accounts[:_MOST])
    if not found:
        is_service = isinstance(row, HttpService) and row.account == row.Account.PERSONAL
        return str(_NOBODY if is_service else _NONE[McpConnection.Account(row.account)])
    names, read_at = _names(row, found), _read_at(row)
    parts = format_html_join(
        "",
        '<div><p>{} {}</p><p class="hub-subtle">{}</p></div>',
        (
            (
                mark(_MARKS[account.state], account.get_state_display()),
                names.get(account.principal, account.principal),
                _words(account, read_at.get(account.principal)),
            )
            for account in found
        ),
    )
    more = accounts.count() - len(found)
    return format_html("{}<p>{}</p>", parts, _t("and %(count)d more") % {"count": more}) if more > 0 else parts


def _names(row: McpConnection | HttpService, accounts: list[UpstreamAccount]) -> dict[str, str]:
    """Return their owners in words."""
    keys = [each.principal.removeprefix("user:") for each in accounts if each.principal.startswith("user:")]
    people: Any = get_user_model().objects.filter(pk__in=[key for key in keys if key.isdigit()])
    of_all = _t("lists the tools") if row.account in OF_PERSONS else _t("for all callers")
    return {SHARED: of_all, **{f"user:{person.pk}": person.get_username() for person in people}}


def _read_at(row: McpConnection | HttpService) -> dict[str, Any]:
    """Return when lists were read with each account, if they depend on the user."""
    if not isinstance(row, McpConnection) or not row.lists_differ:
        return {}
    return dict(row.personal_lists.values_list("principal", "listed_at"))


def _words(account: UpstreamAccount, read_at: Any = None) -> str:
    words = [visible(account.registration.issuer, one_line=True)] if account.registration is not None else []
    if account.account_name:
        words.append(_t("as %(name)s") % {"name": visible(account.account_name, one_line=True)})
    if account.connected_by:
        words.append(_t("connected by %(name)s") % {"name": visible(account.connected_by, one_line=True)})
    if account.scopes:
        words.append(_t("scopes: %(scopes)s") % {"scopes": visible(account.scopes[:300], one_line=True)})
    if account.expires_at is not None:
        words.append(_t("token expires %(when)s") % {"when": _moment(account.expires_at)})
    if account.refreshed_at is not None:
        words.append(_t("last renewed %(when)s") % {"when": _moment(account.refreshed_at)})
    if read_at is not None:
        words.append(_t("lists read %(when)s") % {"when": _moment(read_at)})
    if account.failure:
        words.append(visible(account.failure, one_line=True))
    return " · ".join(words)


def _moment(value: Any) -> str:
    return timezone.localtime(value).strftime("%Y-%m-%d %H:%M:%S %Z")
