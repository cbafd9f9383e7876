"""What upstreams offer over REST: keys read it, and people decide about exactly what they looked at."""

from __future__ import annotations

import pytest

from tests.rest import by_key, by_person, error_of
from tests.tools_catalog.proposals import definition, offer, proposal
from tools_catalog.models import McpToolDefinition, McpUpstreamTool

pytestmark = pytest.mark.django_db
RIGHTS = ("tools_catalog.view_mcpupstreamtool", "tools_catalog.approve_mcpupstreamtool")


def test_an_offer_is_approved_as_it_was_looked_at() -> None:
    row = proposal()
    person = by_person(*RIGHTS, is_staff=True)
    (given,) = person.get("/api/offers/?state=new").json()["results"]
    assert (given["id"], given["state"], given["seen"]["name"]) == (row.pk, "new", "search")
    address = f"/api/offers/{row.pk}/approve/"
    offer(row.connection, definition(description="Something else."))
    error_of(person.post(address, {"digest": given["digest"]}, content_type="application/json"), 409, "conflict")
    assert not McpToolDefinition.objects.exists()
    digest = person.get(f"/api/offers/{row.pk}/").json()["digest"]
    approved = person.post(address, {"digest": digest, "reason": "needed"}, content_type="application/json")
    assert approved.status_code == 200, approved.content
    assert approved.json()["state"] == "approved"
    assert McpToolDefinition.objects.get().versions.get().reason == "needed"


def test_an_offer_is_rejected() -> None:
    row = proposal()
    person = by_person(*RIGHTS, is_staff=True)
    words = {"digest": row.seen_digest}
    answer = person.post(f"/api/offers/{row.pk}/reject/", words, content_type="application/json")
    assert answer.json()["state"] == "rejected"
    assert McpUpstreamTool.objects.get().decided_by


def test_a_key_reads_offers_and_decides_about_none() -> None:
    row = proposal()
    key = by_key("catalog:write")
    assert key.get(f"/api/offers/{row.pk}/").json()["connection"] == row.connection.slug
    for deed in ("approve", "reject"):
        words = {"digest": row.seen_digest}
        said = key.post(f"/api/offers/{row.pk}/{deed}/", words, content_type="application/json")
        assert "not by keys" in error_of(said, 403, "forbidden")["message"]
    error_of(by_key("tools:call").get("/api/offers/"), 403, "forbidden")


def test_what_cannot_be_served_is_refused_with_the_reason() -> None:
    row = proposal(name="search")
    McpUpstreamTool.objects.filter(pk=row.pk).update(name="no name for clients")
    person = by_person(*RIGHTS, is_staff=True)
    answer = person.post(f"/api/offers/{row.pk}/approve/", {"digest": row.seen_digest}, content_type="application/json")
    assert "don't accept the name" in error_of(answer, 409, "conflict")["message"]
