"""Many requests with one access token, while other tokens come and go."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from django.contrib.auth.models import User
from oauth2_provider.models import AccessToken, Application

from mcphub.features.signin.grants import giving
from sessions_app.protocol.errors import Unauthenticated
from sessions_app.tokens import AccessTokens

ANOTHER = "ab" * 32


@pytest.fixture
def text(transactional_db: None) -> str:
    """An access token of a person for `/mcp`."""
    client = Application.objects.create(name="desk", client_type="public", authorization_grant_type="x")
    return str(giving.give(User.objects.create_user("ann"), client, "/mcp", ["mcp"])["access_token"])


async def look(known: AccessTokens, text: str, *forgotten: str) -> Any:
    """Find a token; while it is read, others are forgotten."""
    digest = hashlib.sha256(text.encode()).digest()
    reading = asyncio.create_task(known.find(digest, text))
    await asyncio.sleep(0)
    for each in forgotten:
        known.forget(each)
    await reading
    return known.known(digest)


def test_a_thousand_requests_with_one_new_token_are_one_look(text: str) -> None:
    known, digest = AccessTokens(), hashlib.sha256(text.encode()).digest()

    async def all_at_once() -> set[str]:
        found = await asyncio.gather(*(known.find(digest, text) for _ in range(1000)))
        return {grant.caller.principal for grant in found}

    assert len(asyncio.run(all_at_once())) == 1


def test_a_token_is_kept_although_another_ends_while_it_is_read(text: str) -> None:
    assert asyncio.run(look(AccessTokens(), text, ANOTHER)) is not None


@pytest.mark.parametrize("is_named", [True, False])
def test_a_token_that_changes_while_it_is_read_is_not_kept(text: str, is_named: bool) -> None:
    forgotten = hashlib.sha256(text.encode()).hexdigest() if is_named else ""
    assert asyncio.run(look(AccessTokens(), text, forgotten)) is None


def test_a_request_after_the_end_of_a_token_does_not_join_the_look_before_it(text: str) -> None:
    known, digest = AccessTokens(), hashlib.sha256(text.encode()).digest()

    async def revoked_meanwhile() -> None:
        before = asyncio.create_task(known.find(digest, text))
        await asyncio.sleep(0)
        await AccessToken.objects.all().adelete()
        known.forget(digest.hex())
        with pytest.raises(Unauthenticated):
            await known.find(digest, text)
        await asyncio.gather(before, return_exceptions=True)
        assert known.known(digest) is None

    asyncio.run(revoked_meanwhile())


def test_a_client_that_leaves_does_not_end_the_look_of_the_others(text: str) -> None:
    known, digest = AccessTokens(), hashlib.sha256(text.encode()).digest()

    async def first_leaves() -> str:
        first, second = (asyncio.create_task(known.find(digest, text)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        return (await second).caller.label

    assert asyncio.run(first_leaves()).startswith("ann via desk")
