"""What a worker takes over of how providers do, from the rows that others write."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.utils import timezone

from mcphub.features.chat.providers.health import ProviderHealth, ProviderStatus
from tools_catalog.upstream.breaker import Breaker


@pytest.fixture
def breaker() -> Breaker:
    return Breaker(time.monotonic, limit=1)


def resting() -> dict[str, ProviderStatus]:
    until = timezone.now() + timedelta(seconds=60)
    return {"far": ProviderStatus(code="PROVIDER_UNAVAILABLE", rests_until=until, openings=3)}


def test_a_provider_that_others_leave_alone_is_left_alone_until_it_answers_them(breaker: Breaker) -> None:
    health = ProviderHealth({"far": breaker, "near": Breaker(time.monotonic)})
    health.follow(resting())
    assert (breaker.openings, 50 < breaker.left_seconds <= 60) == (3, True)
    health.follow({"far": ProviderStatus()})
    assert not breaker.is_open


def test_a_pause_that_is_over_is_not_begun_again(breaker: Breaker) -> None:
    past = ProviderStatus(code="PROVIDER_UNAVAILABLE", rests_until=timezone.now() - timedelta(seconds=1), openings=1)
    ProviderHealth({"far": breaker}).follow({"far": past})
    assert not breaker.is_open


def test_what_was_found_out_here_holds_while_the_rows_do_not_have_it_yet(breaker: Breaker) -> None:
    health = ProviderHealth({"far": breaker})
    health.follow({})
    breaker.failed()
    health.follow({"far": ProviderStatus()})
    assert breaker.is_open
