"""The seam between a session with an upstream and the account that it has there: tokens in, refusals out.

A session asks for a token before each request and says what the upstream refused. Where tokens come from, who renews
them and what a person must do, is known to `tools_catalog.accounts` above.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sessions_app.protocol import errors
from tools_catalog.upstream.spec import ConnectionSpec


class AccountNeeded(errors.UpstreamError):
    """The upstream lets nobody in without an account that is not there. Nothing ran."""

    def __init__(self, sentence: str, connection: str, principal: str = "") -> None:
        super().__init__(sentence, connection=connection)
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


Accounts = Callable[[ConnectionSpec, str], Account]
"""Gives the account of a principal at the upstream of a connection; of nobody: the one that lists are read with."""
