"""The admin's page of a call says where the row is sealed, and finds out whether it is as it was."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.urls import reverse

from invocations.models import McpToolInvocation
from tests.committed import without_rules
from tests.invocations.chain.rows import event, fill
from tests.rest import by_person

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def auditor(transactional_db: None) -> Any:
    return by_person("invocations.view_mcptoolinvocation", "invocations.view_auditblock", is_staff=True)


def told(client: Any, call: str, **query: str) -> Any:
    row = McpToolInvocation.objects.get(invocation_id=call)
    page = client.get(reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]), query)
    assert page.status_code == 200
    return page.context["integrity"]


def test_a_call_is_verified_up_to_the_signed_root(database, sealer, auditor) -> None:
    calls = []
    for _ in range(3):
        calls += fill(database, 3)
        event()
        sealer.seal()
    (unsealed,) = fill(database, 1)
    assert told(auditor, unsealed, verify="1").block is None
    found = told(auditor, calls[4])
    assert (found.block, found.steps, len(found.leaf)) == (1, [], 64)
    for call in calls:
        assert told(auditor, call, verify="1").holds
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(
            "UPDATE invocations_mcptoolinvocation SET principal = 'key:2' WHERE invocation_id = %s", [calls[4]]
        )
    found = told(auditor, calls[4], verify="1")
    assert not found.holds
    assert [good for good, _sentence in found.steps] == [False, True, True]
    assert told(auditor, calls[3], verify="1").holds


def test_a_log_whose_key_is_not_here_is_not_said_to_hold(database, sealer, keys, auditor) -> None:
    (call,) = fill(database, 1)
    sealer.seal()
    keys.public.unlink()
    found = told(auditor, call, verify="1")
    assert not found.holds
    assert "is not stored here" in found.problem
