"""Keys that tell a repeat go when their session has ended; those of a live session stay as long as it lives."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from invocations.call import repeats
from invocations.models import McpIdempotencyKey
from tests.factories import McpSessionFactory

pytestmark = pytest.mark.django_db


def keep_key(session_id: str, age: timedelta) -> None:
    McpIdempotencyKey.objects.create(
        scope=f"session:{session_id}", key="1", fingerprint="f", invocation_id="i", created_at=timezone.now() - age
    )


def test_only_old_keys_of_ended_sessions_are_removed():
    live, ended = McpSessionFactory().pk, McpSessionFactory()
    type(ended).objects.filter(pk=ended.pk).close("over")
    for session_id in (live, ended.pk):
        keep_key(session_id, timedelta(hours=2))
    assert repeats.purge() == 1
    keep_key("just-now", timedelta(0))
    assert repeats.purge() == 0
    assert set(McpIdempotencyKey.objects.values_list("scope", flat=True)) == {f"session:{live}", "session:just-now"}


def test_keys_of_callers_are_kept_for_their_time(settings):
    settings.MCPHUB_IDEMPOTENCY_HOURS = 24
    for key, hours in (("old", 25), ("young", 23)):
        McpIdempotencyKey.objects.create(
            scope="caller:key:1",
            key=key,
            fingerprint="f",
            invocation_id="i",
            created_at=timezone.now() - timedelta(hours=hours),
        )
    assert repeats.purge() == 1
    assert McpIdempotencyKey.objects.get().key == "young"


def test_many_keys_of_live_sessions_hide_none_of_ended_ones():
    live = McpSessionFactory().pk
    for number in range(5):
        McpIdempotencyKey.objects.create(
            scope=f"session:{live}",
            key=str(number),
            fingerprint="f",
            invocation_id="i",
            created_at=timezone.now() - timedelta(days=2),
        )
    keep_key("ended", timedelta(hours=2))
    assert repeats.purge(limit=2) == 1
