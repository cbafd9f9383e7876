"""What rows of other servers say of the account that the hub has there: connections and services alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel
from tools_catalog.upstream import spec
from tools_catalog.upstream.account import (
    BEHALF_ACCOUNT,
    BY_WORD,
    EXCHANGE_ACCOUNT,
    JAG_ACCOUNT,
    UNATTENDED,
    WORKLOAD_ACCOUNT,
)

BY_WORD_GUARDED: Final[Mapping[str, Any]] = {
    "account": spec.NO_ACCOUNT,
    "url": None,
    "headers": None,
    "client_id": None,
    "client_secret": None,
    "account_scopes": None,
}
"""What says whom the hub names to whom, where it speaks for people."""


class AccountPlaceModel(GuardedModel):
    """A server or API at which the hub may have accounts."""

    of: ClassVar[str]
    """The name of the relation that accounts have to it: connection or service."""
    OF_ACCOUNT: ClassVar[Mapping[str, Any]] = BY_WORD_GUARDED
    """The part of GUARDED that is held back only where the hub speaks for people."""

    class Account(models.TextChoices):
        NONE = spec.NO_ACCOUNT, _("None, or what the headers say")
        CLIENT = spec.CLIENT_ACCOUNT, _("The hub's own, by client credentials")
        WORKLOAD = WORKLOAD_ACCOUNT, _("The hub's own, by the identity of its workload")
        SHARED = spec.SHARED_ACCOUNT, _("One for all callers: an operator connects it")
        PERSONAL = spec.PERSONAL_ACCOUNT, _("Each person's own: callers connect theirs")
        BEHALF = BEHALF_ACCOUNT, _("Each person's, by the hub's word (JWT bearer grant)")
        EXCHANGE = EXCHANGE_ACCOUNT, _("Each person's, by the hub's word (token exchange)")
        JAG = JAG_ACCOUNT, _("Each person's, by the company's issuer (ID-JAG)")

    account = models.CharField(
        _("account"),
        max_length=10,
        choices=Account,
        default=Account.NONE,
        help_text=_("As whom the hub signs in at a server that demands OAuth."),
    )
    client_id = models.CharField(
        _("client id"),
        max_length=2000,
        blank=True,
        help_text=_("What the issuer calls the hub. Empty: the hub registers itself, where the issuer lets it."),
    )
    client_secret = models.CharField(
        _("client secret"),
        max_length=64,
        blank=True,
        help_text=_("The name of a secret: the client's password, or its private key as PEM."),
    )
    account_scopes = models.CharField(
        _("scopes to ask for"),
        max_length=1000,
        blank=True,
        help_text=_("With blanks between. Empty: those that the server asks for."),
    )

    class Meta:
        abstract = True

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """By its word the hub is each person there: one person alone neither begins that nor turns it elsewhere."""
        careful = {name: value for name, value in super().careful_values(stored).items() if name not in self.OF_ACCOUNT}
        if self.account not in BY_WORD:
            return careful
        if stored is None or stored["account"] not in BY_WORD:
            return {**careful, "account": spec.NO_ACCOUNT}
        return {**careful, **{name: stored[name] for name in self.OF_ACCOUNT}}

    def problems_of_account(self, headers: dict[str, Any]) -> dict[str, Any]:
        """Say what of these words does not go together, by field."""
        if self.account == spec.NO_ACCOUNT:
            return {}
        problems: dict[str, Any] = {}
        if any(name.lower() == "authorization" for name in headers if isinstance(name, str)):
            problems["headers"] = _("The account writes the header Authorization. Take it out here.")
        if self.account == spec.CLIENT_ACCOUNT and not (self.client_id and self.client_secret):
            problems["account"] = _("Client credentials need a client id and a client secret.")
        elif self.account == WORKLOAD_ACCOUNT:
            if not self.client_id:
                problems["client_id"] = _("What the issuer calls the workload. Enter it.")
        elif self.account == JAG_ACCOUNT:
            if not self.client_id:
                problems["client_id"] = _("What the server's issuer calls the hub. Enter it.")
        elif self.account in UNATTENDED and not (self.client_id and self.client_secret):
            problems["account"] = _("The hub's word needs a client id, and a private key as the client secret.")
        if self.client_secret and not self.client_id:
            problems["client_id"] = _("A client secret belongs to a client id. Enter that, too.")
        return problems
