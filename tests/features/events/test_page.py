"""The page of subscriptions: who subscribed which host, and how one is ended."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcphub.features.events import delivering
from mcphub.features.events.models import EventLog, EventSubscription
from mcphub.features.notifications.models import new_secret
from sessions_app.history.models import AuditEvent

pytestmark = pytest.mark.django_db
LIST = "/admin/events/eventsubscription/"


@pytest.fixture
def row() -> EventSubscription:
    made = EventSubscription(
        mark="sub_1",
        name="connection.down",
        principal="key:1",
        caller_label="robot",
        subscriber={},
        shown_url="https://client.example/…",
        expires_at=timezone.now() + timedelta(hours=1),
        read_upto=EventLog.now().newest,
    )
    made.seal("url", "https://client.example/secret-path")
    made.seal("secret", new_secret())
    made.save()
    return made


def test_the_page_names_caller_and_host_and_no_more_of_the_address(
    row: EventSubscription, log_in: Callable[..., Any]
) -> None:
    client = log_in("Operator")
    for path in (LIST, f"{LIST}{row.pk}/change/"):
        page = client.get(path).content.decode().replace("<wbr>", "")
        assert "robot" in page
        assert "client.example" in page
        assert "secret-path" not in page


@pytest.mark.parametrize("is_of_the_row", [True, False])
def test_an_operator_ends_a_subscription_on_record_and_the_callback_gets_the_end(
    row: EventSubscription, log_in: Callable[..., Any], is_of_the_row: bool
) -> None:
    client = log_in("Operator")
    place, chosen = LIST, {"action": "end_selected", "_selected_action": str(row.pk)}
    if is_of_the_row:
        place, chosen = f"{LIST}{row.pk}/end-it/", {}
        assert place in client.get(f"{LIST}{row.pk}/change/").content.decode()
    assert "End 1 event subscription?" in client.post(place, chosen).content.decode()
    assert EventSubscription.objects.get().is_ending is False
    client.post(place, {**chosen, "confirmed": "yes", "reason": "Not ours."}, follow=True)
    assert EventSubscription.objects.get().is_ending
    (event,) = AuditEvent.objects.filter(kind="event_subscription.ended")
    assert (event.reason, event.actor[:5]) == ("Not ours.", "user:")
    assert delivering.claim("one", 8) == [row.pk]
