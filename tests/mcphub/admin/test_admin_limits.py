"""The page of rate limits: what is left in each bucket, and filling them after a question."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from sessions_app.history.reading import history_of
from sessions_app.models import ApiKey, RateLimitBucket

pytestmark = pytest.mark.django_db
LIST = "admin:sessions_app_ratelimitbucket_changelist"


def bucket(client_id: str, tokens: float = 0) -> RateLimitBucket:
    return RateLimitBucket.objects.create(
        client_id=client_id, tokens=tokens, capacity=10, refill_per_second=0.001, last_refill=timezone.now()
    )


def test_the_names_of_keys_take_one_statement_however_many_buckets(log_in: Any) -> None:
    client = log_in("Viewer")

    def statements() -> int:
        client.get(reverse(LIST))
        with CaptureQueriesContext(connection) as seen:
            assert "laptop 0" in client.get(reverse(LIST)).content.decode()
        return len(seen)

    bucket(f"key:{ApiKey.issue('laptop 0')[0].pk}")
    before = statements()
    for number in range(1, 9):
        bucket(f"key:{ApiKey.issue(f'laptop {number}')[0].pk}")
    assert statements() == before


def test_buckets_are_filled_after_a_question_and_it_is_on_record(log_in: Any) -> None:
    empty, other = bucket("key:1"), bucket("anonymous 10.0.0.1")
    client = log_in("Operator")
    data = {"action": "fill", "_selected_action": [empty.pk]}
    assert "Refill 1 rate limit?" in client.post(reverse(LIST), data).content.decode()
    empty.refresh_from_db()
    assert empty.tokens < 1
    done = client.post(reverse(LIST), {**data, "confirmed": "yes", "reason": "a demo"})
    assert [row[0] for row in done.context["rows"]] == ["key:1"]
    empty.refresh_from_db()
    other.refresh_from_db()
    assert (empty.tokens, other.tokens) == (10, 0)
    event = history_of(empty).first()
    assert (event.kind, event.actor) == ("ratelimitbucket.filled", f"user:{client.user.pk}")
    assert (event.subject_label, event.reason) == ("key:1", "a demo")
    log_in("Viewer").post(reverse(LIST), {**data, "_selected_action": [other.pk], "confirmed": "yes"})
    other.refresh_from_db()
    assert other.tokens == 0
