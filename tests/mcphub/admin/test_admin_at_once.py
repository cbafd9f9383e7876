"""Two people who save the same name in the same moment: the second gets the form back, with the reason."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Model
from django.db.models.signals import pre_save
from django.test import Client

from mcphub.features.notifications.models import Subscription
from sessions_app.models import McpWorkspace

pytestmark = [pytest.mark.postgresql, pytest.mark.usefixtures("transactional_db")]  # SQLite writes one after another
SUBSCRIPTION = {"name": "mail", "enabled": "on", "way": "email", "address": "calls@example.org", "language": "en"}


@contextmanager
def a_rival(row: Model) -> Iterator[None]:
    """Save the row from another connection, once a form for one like it was found valid."""
    waiting = [row]

    def save(**_told: Any) -> None:
        if waiting:
            rival = waiting.pop()
            with ThreadPoolExecutor(1) as thread:
                thread.submit(_saved, rival).result()

    pre_save.connect(save, sender=type(row))
    try:
        yield
    finally:
        pre_save.disconnect(save, sender=type(row))


def _saved(row: Model) -> None:
    row.save()
    connection.close()


@pytest.mark.parametrize("page", ["telling/subscription", "sessions_app/mcpworkspace"])
def test_a_name_that_somebody_saves_at_the_same_moment_is_an_error_of_the_form(page: str) -> None:
    operator = User.objects.create_superuser("operator")
    rows: dict[str, tuple[Model, dict[str, str]]] = {
        "telling/subscription": (
            Subscription(person=operator, name="mail", way="email"),
            {**SUBSCRIPTION, "group_seconds": "30", "zone": "UTC"},
        ),
        "sessions_app/mcpworkspace": (McpWorkspace(slug="shop", title="Shop"), {"slug": "shop", "title": "Shop"}),
    }
    row, form = rows[page]
    client = Client()
    client.force_login(operator)
    with a_rival(row):
        answer = client.post(f"/admin/{page}/add/", form)
    assert answer.status_code == 200
    assert "already" in answer.content.decode()
    assert type(row)._default_manager.count() == 1
