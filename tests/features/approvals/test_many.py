"""Ten thousand calls that wait: each statement of asking, of the sweep and of the lists is answered by an index."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from invocations.call_source import CallSource
from mcphub.features.approvals import asking
from mcphub.features.approvals.asking import MOST_OF_CALLER, MOST_WAITING, Asked
from mcphub.features.approvals.models import McpApproval
from sessions_app.caller import Caller
from sessions_app.protocol.errors import ServerBusy
from tests.factories import McpToolDefinitionFactory
from tests.rigs.plans import Judge, watched
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.policy.ask import Ask

pytestmark = pytest.mark.django_db


def fill(waiting: int, over: int = 2_000) -> None:
    """Calls of many callers that wait, and twice as many places behind them that are over."""
    now = timezone.now()

    def row(number: int, **fields: Any) -> McpApproval:
        known = {"principal": f"key:{number // 50}", "tool_name": "drop", "tool_version": "1", "arguments": {"n": 1}}
        times = {"created_at": now - timedelta(seconds=number), "expires_at": now + timedelta(hours=1)}
        return McpApproval(id=f"appr_{number}", binding=f"{number:064d}", **{**known, **times, **fields})

    McpApproval.objects.bulk_create([row(number) for number in range(waiting)], batch_size=500)
    past = {"status": "used", "decided_at": now, "expires_at": now - timedelta(hours=1)}
    McpApproval.objects.bulk_create([row(waiting + number, **past) for number in range(over)], batch_size=500)


def asked(principal: str, **arguments: Any) -> Asked:
    if not McpToolDefinitionFactory._meta.model.objects.filter(name="drop").exists():
        McpToolDefinitionFactory(name="drop", input_schema={"type": "object"})
    caller = Caller(principal=principal, label=principal, scopes=frozenset({"tools:call"}))
    source = CallSource(caller=caller, session_id="", transport="http")
    tool = Catalog.load().tools["drop"]
    return Asked(source=source, tool=tool, ask=Ask(), arguments=arguments, recorded=arguments)


def test_each_statement_finds_its_rows_by_an_index() -> None:
    fill(MOST_WAITING - 1)
    one = asked("key:new", n=1)
    admin = Client()
    admin.force_login(User.objects.create_superuser("root"))
    judge = Judge()
    addresses = [
        reverse("admin:invocations_mcpapproval_changelist") + "?state=pending",
        reverse("admin:invocations_mcpapproval_change", args=["appr_5F5"]),
        "/api/approvals/?status=pending",
        reverse("admin:index"),
    ]
    for act in (
        lambda: asking.granted(one),
        lambda: asking.attach(one),
        asking.sweep,
        *(lambda address=address: admin.get(address) for address in addresses),
    ):
        with watched() as seen:
            act()
        mine = [words for words in judge.offences(seen) if "mcpapproval" in words]
        assert not mine, mine


def test_one_more_than_ten_thousand_is_refused_and_so_is_one_more_than_a_caller_may() -> None:
    fill(MOST_WAITING, over=0)
    with pytest.raises(ServerBusy, match="10000 calls wait"):
        asking.attach(asked("key:new", n=1))
    McpApproval.objects.all().delete()
    for number in range(MOST_OF_CALLER):
        asking.attach(asked("key:one", n=number))
    with pytest.raises(ServerBusy, match="of this caller"):
        asking.attach(asked("key:one", n=MOST_OF_CALLER))
    assert asking.attach(asked("key:one", n=0)).status == "pending"  # what waits already is attached to
    assert asking.attach(asked("key:two", n=0)).status == "pending"


@pytest.mark.parametrize("status", ["denied", "approved"])
def test_a_call_that_another_worker_asked_about_and_somebody_decided_meanwhile_is_not_asked_again(status: str) -> None:
    one, made = asked("key:one", n=1), []

    def elsewhere(execute: Any, sql: str, *more: Any) -> Any:
        """Ask and decide just before this worker's own question is written."""
        if sql.startswith('INSERT INTO "invocations_mcpapproval"') and not made:
            made.append("")
            row = asking.attach(one)
            McpApproval.objects.filter(pk=row.pk).update(status=status, decided_at=timezone.now())
            made[0] = row.pk
        return execute(sql, *more)

    with connection.execute_wrapper(elsewhere):
        row = asking.attach(one)
    assert (row.pk, row.status) == (made[0], status)


@pytest.mark.parametrize("rows", [5, 40])
def test_the_list_costs_as_many_statements_for_many_as_for_few(rows: int) -> None:
    fill(rows, over=0)
    admin = Client()
    admin.force_login(User.objects.create_superuser("root"))
    address = reverse("admin:invocations_mcpapproval_changelist") + "?state=pending"
    admin.get(address)
    with watched() as seen:
        assert admin.get(address).status_code == 200
    assert len([sql for sql, _ in seen.statements if "mcpapproval" in sql]) <= 3
