"""Rows that direct the calls of tools: connections, services and launch profiles, with the settings of accounts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from django.db import models
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel
from sessions_app.protocol.authorization import AuthorizationInvalid, issuer_documents
from sessions_app.protocol.errors import EgressRefused
from tools_catalog.egress.rules import EgressPolicy
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
"""The settings that decide whom the hub identifies to whom, if it speaks for people."""


def problem_of_address(address: str, *, is_issuer: bool = False) -> str:
    """Return the reason why an issuer's address, or its name, must not be used; empty where it may."""
    try:
        EgressPolicy.from_settings().check_url(address)
        if is_issuer:
            issuer_documents(address)
    except (EgressRefused, AuthorizationInvalid) as error:
        return str(error)
    return ""


class PlaceModel(GuardedModel):
    """A row that directs the calls of tools to a server or program."""

    WHERE: ClassVar[tuple[str, ...]]
    """The fields with the destination. An edit by which tools would evade a policy needs a second person."""

    class Meta:
        abstract = True

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        from tools_catalog.models import reach

        super().hold_back(only)
        reach.hold_back_place(self, None if only is None else set(only))


class AccountPlaceModel(PlaceModel):
    """A server or API at which the hub may have accounts."""

    of: ClassVar[str]
    """The name of the relation that accounts have to it: connection or service."""
    OF_ACCOUNT: ClassVar[Mapping[str, Any]] = BY_WORD_GUARDED
    """The part of GUARDED that is held back only where the hub speaks for people."""

    class Account(models.TextChoices):
        NONE = spec.NO_ACCOUNT, _("None, or as the headers say")
        CLIENT = spec.CLIENT_ACCOUNT, _("Hub: client credentials")
        WORKLOAD = WORKLOAD_ACCOUNT, _("Hub: workload identity")
        SHARED = spec.SHARED_ACCOUNT, _("Shared: an operator connects one account for all callers")
        PERSONAL = spec.PERSONAL_ACCOUNT, _("Per user: callers connect their own")
        BEHALF = BEHALF_ACCOUNT, _("Per user: hub-signed assertion (JWT bearer, RFC 7523)")
        EXCHANGE = EXCHANGE_ACCOUNT, _("Per user: hub-signed assertion (token exchange, RFC 8693)")
        JAG = JAG_ACCOUNT, _("Per user: through the company's issuer (ID-JAG)")

    account = models.CharField(
        _("account"),
        max_length=10,
        choices=Account,
        default=Account.NONE,
        help_text=_("How the hub authenticates to a server that requires OAuth."),
    )
    client_id = models.CharField(
        _("client ID"),
        max_length=2000,
        blank=True,
        help_text=_(
            "The hub's client ID at the issuer. Leave blank to register dynamically, where the issuer allows it."
        ),
    )
    client_secret = models.CharField(
        _("client secret"),
        max_length=64,
        blank=True,
        help_text=_("The name of a secret that holds the client's password, or its private key as PEM."),
    )
    account_scopes = models.CharField(
        _("scopes to ask for"),
        max_length=1000,
        blank=True,
        help_text=_("Space-separated. Leave blank for those that the server requests."),
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
        """Return the conflicts among these settings, by field."""
        if self.account == spec.NO_ACCOUNT:
            return {}
        problems: dict[str, Any] = {}
        if any(name.lower() == "authorization" for name in headers if isinstance(name, str)):
            problems["headers"] = _("The account sets the Authorization header. Remove it here.")
        if self.account == spec.CLIENT_ACCOUNT and not (self.client_id and self.client_secret):
            problems["account"] = _("Client credentials need a client ID and a client secret.")
        elif self.account == WORKLOAD_ACCOUNT:
            if not self.client_id:
                problems["client_id"] = _("Enter the workload's client ID at the issuer.")
        elif self.account == JAG_ACCOUNT:
            if not self.client_id:
                problems["client_id"] = _("Enter the hub's client ID at the server's issuer.")
        elif self.account in UNATTENDED and not (self.client_id and self.client_secret):
            problems["account"] = _("A hub-signed assertion needs a client ID, and a private key as the client secret.")
        if self.client_secret and not self.client_id:
            problems["client_id"] = _("A client secret needs a client ID. Enter that too.")
        return problems
