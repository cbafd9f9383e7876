"""On a phone a waiting change shows its decisions, which need no menu."""

from __future__ import annotations

from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api")
expect = playwright.expect

pytestmark = pytest.mark.program
SEED = """
from django.contrib.auth.models import User
from sessions_app.models import WaitingChange
User.objects.create_superuser("operator", password="a long password")
WaitingChange.objects.create(
    subject_model="tools_catalog.mcptooldefinition", subject_id="1", subject_label="weather",
    before={"read_only": False}, after={"read_only": True}, proposed_by="user:99", proposer_label="olga", people=[99],
)
"""


def test_a_phone_shows_both_decisions_of_a_waiting_change(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/admin/sessions_app/waitingchange/1/change/")
    for name in ("Confirm", "Reject"):
        expect(page.get_by_role("link", name=name)).to_be_in_viewport()
    page.get_by_role("link", name="Reject").click()
    expect(page.get_by_role("heading", name="Reject 1 change?")).to_be_visible()
