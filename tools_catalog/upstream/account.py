"""The seam between a session with an upstream and the account that it has there: tokens in, refusals out.

A session requests a token before each request and reports the upstream's refusals. The origin of tokens, their
renewal and a person's part are up to `tools_catalog.accounts` above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from sessions_app.protocol import errors

NO_ACCOUNT, CLIENT_ACCOUNT, SHARED_ACCOUNT, PERSONAL_ACCOUNT = "none", "client", "shared", "personal"
BEHALF_ACCOUNT, EXCHANGE_ACCOUNT, WORKLOAD_ACCOUNT = "behalf", "exchange", "workload"
JAG_ACCOUNT = "jag"
"""The hub's authentication at an upstream, or at the API of a service."""
ACCOUNTS: Final = (
    NO_ACCOUNT,
    CLIENT_ACCOUNT,
    WORKLOAD_ACCOUNT,
    SHARED_ACCOUNT,
    PERSONAL_ACCOUNT,
    BEHALF_ACCOUNT,
    EXCHANGE_ACCOUNT,
    JAG_ACCOUNT,
)
UNATTENDED: Final = frozenset({CLIENT_ACCOUNT, WORKLOAD_ACCOUNT, BEHALF_ACCOUNT, EXCHANGE_ACCOUNT, JAG_ACCOUNT})
"""Those that the hub gets tokens for without a person at a browser."""
BY_WORD: Final = frozenset({BEHALF_ACCOUNT, EXCHANGE_ACCOUNT})
"""Kinds for which an issuer trusts the hub's statement about the caller."""
OF_PERSONS: Final = frozenset({PERSONAL_ACCOUNT, BEHALF_ACCOUNT, EXCHANGE_ACCOUNT, JAG_ACCOUNT})
"""Those of which each person has one."""


class AccountPlace(Protocol):
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

    @property
    def identity(self) -> AccountPlace | None:
        """The service whose accounts identify people to this one's issuer (ID-JAG)."""
        ...


class AccountNeeded(errors.UpstreamError):
    """The upstream lets nobody in without an account that is not there. Nothing ran."""

    def __init__(self, sentence: str, slug: str, principal: str = "", of: str = "connection") -> None:
        super().__init__(sentence, **{of: slug})
        self.of, self.slug = of, slug
        self.principal = principal
        """The principal who can connect it himself; empty if an operator has to."""


class AccountRefused(errors.UpstreamError):
    """The upstream does not let the account do this, or its issuer gives no token now. Nothing ran."""


class Account(Protocol):
    """The account of one principal at one upstream."""

    async def token(self) -> str:
        """Return the access token to send; empty where there is no account yet and the upstream may need none.

        Raises AccountNeeded, AccountRefused; SessionLost if it was connected anew since the first token, since the
        upstream's session state may be another's.
        """
        ...

    def headers(self, token: str, method: str, url: str) -> dict[str, str]:
        """Return the headers of one request with a token that `token` gave: with a proof, where it is bound to a
        key.
        """
        ...

    def heard(self, url: str, nonce: str) -> None:
        """Store a server's demand for the next proofs."""
        ...

    async def is_connected(self) -> bool:
        """Return whether there are tokens, or may be without anybody at a browser."""
        ...

    async def refused(self, sent: str, status: int, challenge: str) -> None:
        """Come back where the request, which was refused with 401 or 403, is worth one more try with a new token.

        `sent` is the token of the request, `challenge` the header WWW-Authenticate. Raises AccountNeeded,
        AccountRefused.
        """
        ...


Accounts = Callable[[AccountPlace, str], Account]
"""Gives the account of a principal at a place; of nobody: the one that all share, or that lists are read with."""
