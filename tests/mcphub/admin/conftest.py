"""People in each shipped role, logged in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client

from tests.factories import McpToolDefinitionFactory, UserFactory
from tools_catalog.backends import python


@pytest.fixture(autouse=True)
def _ground() -> None:
    settings.STATIC_ROOT.mkdir(parents=True, exist_ok=True)  # WhiteNoise warns without it
    python.discover(["starter"])


@pytest.fixture
def log_in(db: Any) -> Callable[..., Client]:
    """Return a client of somebody in the named group; "superuser" for one who may do all."""

    def log_in(role: str) -> Client:
        if role == "superuser":
            user = UserFactory(is_staff=True, is_superuser=True)
        else:
            user = UserFactory(is_staff=True)
            user.groups.add(Group.objects.get(name=role))
        client = Client()
        client.force_login(user)
        client.user = user  # type: ignore[attr-defined]
        return client

    return log_in


@pytest.fixture
def echo(db: Any) -> Any:
    told = python.definition("tools_catalog.packs.starter.tools:echo")
    return McpToolDefinitionFactory(
        name="echo",
        description=told["description"],
        input_schema=told["inputSchema"],
        backend="python",
        configuration=told["configuration"],
        read_only=True,
        destructive=False,
    )
