"""The seam between a session with an upstream and the account that it has there: tokens in, refusals out.

A session asks for a token before each request and says what the upstream refused. Where tokens come from, who renews
them and what a person must do, is known to `tools_catalog.accounts` above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from sessions_app.protocol import errors

NO_ACCOUNT, CLIENT_ACCOUNT, SHARED_ACCOUNT, PERSONAL_ACCOUNT = "none", "client", "shared", "personal"
BEHALF_ACCOUNT, EXCHANGE_ACCOUNT = "behalf", "exchange"
"""As whom the hub signs in at an upstream, or at the API of a service."""
ACCOUNTS: Final = (NO_ACCOUNT, CLIENT_ACCOUNT, SHARED_ACCOUNT, PERSONAL_ACCOUNT, BEHALF_ACCOUNT, EXCHANGE_ACCOUNT)
UNATTENDED: Final = frozenset({CLIENT_ACCOUNT, BEHALF_ACCOUNT, EXCHANGE_ACCOUNT})
"""Those that the hub gets tokens for without a person at a browser."""
OF_PERSONS: Final = frozenset({PERSONAL_ACCOUNT, BEHALF_ACCOUNT, EXCHANGE_ACCOUNT})
"""Those of which each person has one."""


class Place(Protocol):
    """Where an account is: the upstream of a connection, or the API of a service."""

    @property
    def of(self) -> str:
        """Which of the two: `connection` or `service`."""
        ...

    @property
    def id(self) -> int: ...

    @property
    def slug(self) -> str: ...

    @property
    def url(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def is_personal(self) -> bool: ...


class AccountNeeded(errors.UpstreamError):
    """The upstream lets nobody in without an account that is not there. Nothing ran."""

    def __init__(self, sentence: str, slug: str, principal: str = "", of: str = "connection") -> None:
        super().__init__(sentence, **{of: slug})
        self.of, self.slug = of, slug
        self.principal = principal
        """Of who can connect it himself; empty where an operator has to."""


class AccountRefused(errors.UpstreamError):
    """The upstream does not let the account do this, or its issuer gives no token now. Nothing ran."""


class Account(Protocol):
    """The account of one principal at one upstream."""

    async def token(self) -> str:
        """Give the access token to send; empty where there is no account yet and the upstream may need none.

        Raises AccountNeeded, AccountRefused; SessionLost where it was connected anew since the first token, since
        what the upstream keeps in a session may be another's.
        """
        ...

    async def refused(self, sent: str, status: int, challenge: str) -> None:
        """Come back where the request, which was refused with 401 or 403, is worth one more try with a new token.

        `sent` is the token of the request, `challenge` the header WWW-Authenticate. Raises AccountNeeded,
        AccountRefused.
        """
        ...


Accounts = Callable[[Place, str], Account]
"""Gives the account of a principal at a place; of nobody: the one that all share, or that lists are read with."""
