"""Nothing of another workspace is shown at any address, whatever its rows are called there or numbered."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from mcphub.features.approvals.models import McpApproval
from sessions_app.models import ApiKey
from sessions_app.workspaces.acting import PAGES
from tests.factories import McpConnectionFactory, McpPromptFactory, McpResourceFactory
from tests.mcphub.two_workspaces import OTHERS, person, two_workspaces
from tests.rest import by_token
from tests.rigs.addresses import filled

pytestmark = [pytest.mark.django_db, pytest.mark.slow]

MARKS = (OTHERS, OTHERS.replace("-", "_"))
_ENDLESS = ("stream", "logout", "/live/")
"""In addresses that answer for as long as somebody listens, or end the login."""


@pytest.fixture
def two() -> SimpleNamespace:
    return two_workspaces()


@pytest.fixture
def theirs(two: SimpleNamespace) -> list[str]:
    """Return the numbers and names of rows of each kind in the other workspace."""
    own, mark = two.theirs.workspace, MARKS[1]
    made = [two.theirs.tool, two.theirs.toolset, two.theirs.rule, two.theirs.key, two.theirs.call]
    made += [
        McpConnectionFactory(slug=f"{mark}-up", workspace=own),
        McpPromptFactory(name=f"{mark}.prompt", workspace=own),
        McpResourceFactory(uri=f"docs://{OTHERS}", workspace=own),
        McpApproval.objects.create(
            id=f"mcpr_{mark}",
            principal="key:1",
            caller_label=f"{OTHERS} caller",
            turn_id="t",
            call_id="call_1",
            tool_name=two.theirs.tool.name,
            tool_version="1",
            arguments={},
            binding="0" * 64,
            workspace=own.slug,
            created_at=timezone.now(),
            expires_at=timezone.now() + timedelta(days=1),
        ),
    ]
    return sorted(
        {str(row.pk) for row in made} | {made[0].name, made[1].slug, made[4].invocation_id, str(own.pk), own.slug}
    )


def addresses(under: Any = None, before: str = "") -> Any:
    """Yield every pattern of the hub's Django that serves a workspace's people, and keys."""
    for each in get_resolver().url_patterns if under is None else under:
        where = before + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from addresses(each.url_patterns, where)
        elif isinstance(each, URLPattern) and (not where.startswith("admin/") or each.name in PAGES):
            yield where


def shown(client: Client, values: list[str]) -> list[str]:
    """Return the addresses whose answers hold a mark that the address does not."""
    found = []
    for pattern in dict.fromkeys(addresses()):
        if any(word in pattern for word in _ENDLESS):
            continue
        for address in dict.fromkeys(filled(pattern, lambda _name, value=value: value) for value in values):
            client.cookies.pop("messages", None)  # repeats the address before
            answer = client.get(address)
            assert answer.status_code < 500 or answer.status_code == 503, address
            body = b"".join(answer) if answer.streaming else answer.content
            text = body.decode(errors="replace").replace(address, "")
            found += [address] if any(mark in text for mark in MARKS) else []
    return found


@pytest.mark.parametrize("roles", [["members"], ["auditors", "operators"]])
def test_people_of_a_workspace_see_no_row_of_another(two: SimpleNamespace, theirs: list[str], roles: list[str]) -> None:
    assert shown(person(*(f"ours {role}" for role in roles)), theirs) == []


def test_a_key_of_a_workspace_sees_no_row_of_another(two: SimpleNamespace, theirs: list[str]) -> None:
    _, token = ApiKey.issue("all", scopes=["audit:read", "tools:list", "tools:call"], workspace=two.ours.workspace)
    assert shown(by_token(token), theirs) == []


def test_the_marks_are_there_for_who_may_see_them(two: SimpleNamespace, theirs: list[str]) -> None:
    """Or the tests above could not fail."""
    assert len(shown(person(f"{OTHERS} operators", f"{OTHERS} auditors"), theirs)) > 15
