"""The pages and endpoints of allowed hosts: two persons open, one closes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.models import WaitingChange
from tests.rest import by_key
from tools_catalog.egress import listed
from tools_catalog.models import AllowedHost
from tools_catalog.models.allowed_hosts import read_allowed_hosts

pytestmark = pytest.mark.django_db
ADD = "admin:tools_catalog_allowedhost_add"
CHANGE = "admin:tools_catalog_allowedhost_change"
LIST = "admin:tools_catalog_allowedhost_changelist"
HOSTS = "/api/allowed-hosts/"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    listed.replace(())


def in_force() -> tuple[str, ...]:
    read_allowed_hosts()
    return listed.current.entries


def test_two_persons_open_a_host_and_one_closes_it(log_in: Any) -> None:
    olga, oleg = log_in("Operator"), log_in("Operator")
    told = olga.post(reverse(ADD), {"host": " 10.0.3.7:8443", "enabled": "on", "note": "tickets"}, follow=True)
    assert told.status_code == 200
    row = AllowedHost.objects.get()
    assert (row.host, row.enabled, in_force()) == ("10.0.3.7:8443", False, ())
    change = WaitingChange.objects.get()
    assert (change.subject_model, change.after) == ("tools_catalog.allowedhost", {"enabled": True})
    confirm = f"/admin/sessions_app/waitingchange/{change.pk}/confirm/"
    assert olga.post(confirm, {"confirmed": "1"}).status_code == 403
    assert oleg.post(confirm, {"confirmed": "1", "reason": "seen"}).status_code == 302
    assert in_force() == ("10.0.3.7:8443",)
    olga.post(reverse(CHANGE, args=[row.pk]), {"host": "10.0.3.7:8443", "note": "tickets"})
    assert in_force() == ()


def test_another_host_in_its_place_waits_again(log_in: Any) -> None:
    row = AllowedHost.objects.create(host="10.0.3.7")
    log_in("Operator").post(reverse(CHANGE, args=[row.pk]), {"host": "10.0.9.9", "enabled": "on", "note": ""})
    row.refresh_from_db()
    assert (row.host, row.enabled) == ("10.0.9.9", False)


def test_a_superuser_opens_alone(log_in: Any) -> None:
    log_in("superuser").post(reverse(ADD), {"host": "*.Example.Internal", "enabled": "on"})
    assert in_force() == ("*.example.internal",)


@pytest.mark.parametrize("host", ["https://x.example", "10.0.0.0/8:80x", "a b", "0x7f.1", "10.0.0.7:0"])
def test_what_is_no_host_is_refused(host: str, log_in: Any) -> None:
    page = log_in("superuser").post(reverse(ADD), {"host": host, "enabled": "on"})
    assert "a host, an address or a network." in page.content.decode()
    assert not AllowedHost.objects.exists()


def test_the_list_shows_what_the_settings_say(log_in: Any, settings: Any) -> None:
    settings.MCPHUB_EGRESS_DENY = ["10.9.0.0/16"]
    page = log_in("Viewer").get(reverse(LIST)).content.decode()
    assert "MCPHUB_EGRESS_DENY" in page
    assert "10.9.0.0/16" in page


def test_over_rest_it_waits_too_and_is_closed_at_once() -> None:
    client = by_key("catalog:write")
    made = client.post(HOSTS, {"host": "10.0.3.7", "note": "tickets"}, content_type="application/json")
    assert (made.status_code, made.json()["fields_held"]) == (202, ["enabled"])
    row = AllowedHost.objects.get()
    assert (row.enabled, in_force()) == (False, ())
    AllowedHost.objects.filter(pk=row.pk).update(enabled=True)
    assert in_force() == ("10.0.3.7",)
    changed = client.patch(f"{HOSTS}{row.pk}/", {"enabled": False}, content_type="application/json")
    assert (changed.status_code, changed.json()["enabled"], in_force()) == (200, False, ())
    refused = client.post(HOSTS, {"host": "https://x.example"}, content_type="application/json")
    assert "a host, an address or a network" in refused.content.decode()
    assert client.delete(f"{HOSTS}{row.pk}/").status_code == 204
