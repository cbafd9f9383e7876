"""The page of a process: how each of its transports is set, and what failed last."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse
from django.utils import timezone

from tests.factories import ServerProcessFactory

pytestmark = pytest.mark.django_db


def test_the_page_of_a_process_shows_how_each_transport_is_set_and_what_failed_last(log_in):
    process = ServerProcessFactory()
    process.transports.create(type="streamable-http", configuration={"path": "/mcp"})
    broken = {"last_error": "server_error: It broke.", "last_error_at": timezone.now()}
    process.transports.create(type="remote", is_active=False, **broken)
    shown = log_in("Viewer").get(reverse("admin:sessions_app_serverprocess_change", args=[process.pk]))
    page = shown.content.decode()
    assert "Streamable HTTP" in page
    assert "/mcp" in page
    assert "server_error: It broke." in page
    listed = log_in("Viewer").get(reverse("admin:sessions_app_serverprocess_changelist")).content.decode()
    assert "Streamable HTTP" in listed
    assert "Remote profile" not in listed


def test_the_first_cell_of_a_list_without_boxes_bears_the_name_of_its_column(log_in):
    ServerProcessFactory()
    listed = log_in("Viewer").get(reverse("admin:sessions_app_serverprocess_changelist")).content.decode()
    assert "Select record" not in listed
    assert re.findall(r'data-label="([^"]*)"', listed)[:2] == ["Status", "Process"]
