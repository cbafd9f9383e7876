"""On a phone the page of what waits shows its decisions, which need no menu."""

from __future__ import annotations

from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.program
SEED = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcphub.features.approvals.models import McpApproval
from mcphub.features.events.models import UpstreamEvent
from sessions_app.models import WaitingChange
from tools_catalog.models import McpConnection, McpUpstreamTool
User.objects.create_superuser("operator", password="a long password")
now = timezone.now()
WaitingChange.objects.create(
    subject_model="tools_catalog.mcptooldefinition", subject_id="1", subject_label="weather",
    before={"read_only": False}, after={"read_only": True}, proposed_by="user:99", proposer_label="olga", people=[99],
)
McpApproval.objects.create(
    id="appr_1", principal="key:1", caller_label="laptop", tool_name="shop.refund", tool_version="1", arguments={},
    binding="0" * 64, effects="destroys", rule="refunds", created_at=now, expires_at=now + timedelta(hours=2),
)
shop = McpConnection.objects.create(
    slug="shop", transport="streamable-http", url="https://mcp.example.org", enabled=False
)
McpUpstreamTool.objects.create(
    connection=shop, upstream_name="refund", name="shop.refund", seen_digest="0" * 64, seen_schema_digest="0" * 64,
    seen={"name": "refund", "inputSchema": {"type": "object"}},
)
UpstreamEvent.objects.create(connection=shop, name_there="sold", name="shop/sold", offered={"name": "sold"})
"""
DECIDED = {
    "sessions_app/waitingchange/1": ("Confirm", "Reject"),
    "invocations/mcpapproval/appr_5F1": ("Approve", "Deny"),
    "tools_catalog/mcpupstreamtool/1": ("Approve", "Reject"),
    "events/upstreamevent/1": ("Approve", "Stop"),
}


@pytest.mark.parametrize("where", DECIDED)
def test_a_phone_shows_the_decisions_of_what_waits(page: Any, where: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/admin/{where}/change/")
    for name in DECIDED[where]:
        expect(page.get_by_role("link", name=name, exact=True)).to_be_in_viewport()
    page.get_by_role("link", name=DECIDED[where][1], exact=True).click()
    expect(page.locator("form").get_by_role("button", name=DECIDED[where][1])).to_be_visible()
