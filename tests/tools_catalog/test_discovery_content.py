"""Resources and prompts of upstreams come by approval, like tools: held, withheld, refused, overridden."""

from __future__ import annotations

import pytest
from django.core.exceptions import ValidationError

from sessions_app.caller import Caller
from sessions_app.history.reading import history_of
from sessions_app.protocol.errors import PromptNotFound
from tests.factories import McpConnectionFactory
from tests.tools_catalog.proposals import offers
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.models import McpPrompt, McpResource

pytestmark = pytest.mark.django_db

ANYBODY = Caller(principal="key:1", label="", scopes=frozenset(), groups=frozenset())
PAGE = {"uri": "wiki://page", "name": "page", "description": "A page.", "mimeType": "text/plain", "size": 5}
PAGES = {"uriTemplate": "wiki://page/{id}", "name": "pages"}
GREET = {"name": "greet", "description": "Greet.", "arguments": [{"name": "who", "required": True}]}


@pytest.fixture
def connection():
    return McpConnectionFactory(slug="wiki", policy="hold_changes")


def reads(uri: str) -> bool:
    return Resources.load().find(uri, ANYBODY) is not None


def prompts(name: str) -> bool:
    try:
        Prompts.load().find(name, ANYBODY)
    except PromptNotFound:
        return False
    return True


def test_nothing_is_read_before_somebody_approves_it():
    connection = McpConnectionFactory(slug="held")
    rows = offers(connection, resource=[PAGE], template=[PAGES], prompt=[GREET])
    assert {row.state for row in rows.values()} == {"new"}
    assert not reads("wiki://page")
    for row in rows.values():
        discovery.approve(row, author="ann", reason="looked at it")
    assert reads("wiki://page")
    assert reads("wiki://page/7")
    assert prompts("held_greet")
    assert history_of(McpPrompt.objects.get(name="held_greet")).first().reason == "looked at it"


@pytest.mark.parametrize("change", [{"description": "Other."}, {"mimeType": "text/html"}, {"title": "T"}])
def test_a_change_withholds_it_until_it_is_approved(change, connection):
    offers(connection, resource=[PAGE])
    row = offers(connection, resource=[{**PAGE, **change}])["wiki://page"]
    assert row.state == "changed"
    assert not reads("wiki://page")
    discovery.approve(row, author="ann")
    assert reads("wiki://page")


@pytest.mark.parametrize("same", [{"size": 6}, {"annotations": {"lastModified": "2026-01-01T00:00:00Z"}}])
def test_what_changes_with_the_content_is_no_change_of_the_definition(same, connection):
    before = {**PAGE, "annotations": {"lastModified": "2025-01-01T00:00:00Z"}} if "annotations" in same else PAGE
    offers(connection, resource=[before])
    assert offers(connection, resource=[{**before, **same}])["wiki://page"].state == "approved"


def test_changed_arguments_of_a_prompt_are_never_let_through(connection):
    connection.keeps_serving = True
    connection.save()
    offers(connection, prompt=[GREET])
    offers(connection, prompt=[{**GREET, "description": "Hello."}])
    assert prompts("wiki_greet")
    offers(connection, prompt=[{**GREET, "arguments": []}])
    assert not prompts("wiki_greet")


def test_a_kind_that_was_not_listed_stays_as_it_was(connection):
    offers(connection, resource=[PAGE], prompt=[GREET])
    offers(connection, resource=[])
    assert not reads("wiki://page")
    assert prompts("wiki_greet")


def test_a_uri_that_is_taken_is_refused_with_the_reason(connection):
    McpResource.objects.create(uri="wiki://page", name="ours", content="ours")
    row = offers(connection, resource=[PAGE])["wiki://page"]
    assert row.state == "refused"
    assert "wiki://page" in row.refusal


def test_of_two_upstreams_that_offer_one_uri_one_can_be_served_once_the_other_is_rejected():
    first, second = (
        offers(McpConnectionFactory(slug=slug, policy="hold_all"), resource=[PAGE])["wiki://page"]
        for slug in ("first", "second")
    )
    assert second.state == "refused"
    assert second.refusal == (
        "The connection first also offers wiki://page. Only one of them can be available: reject the other."
    )
    with pytest.raises(discovery.ApprovalRefused, match="The connection second also offers"):
        discovery.approve(first, author="op")
    discovery.reject(second, author="op")
    discovery.approve(first, author="op")
    assert reads("wiki://page")


def test_of_a_uri_that_is_listed_as_resource_and_as_template_the_resource_is_served():
    connection = McpConnectionFactory(policy="hold_all")
    offers(connection, resource=[PAGE], template=[{"uriTemplate": PAGE["uri"], "name": "page"}])
    resource, template = connection.tools.get(kind="resource"), connection.tools.get(kind="template")
    assert (resource.state, resource.refusal) == ("new", "")
    assert template.refusal == "The upstream also lists wiki://page as a resource: approve that one."
    discovery.approve(resource, author="op")
    assert reads("wiki://page")


@pytest.mark.parametrize(
    ("kind", "definition"),
    [
        ("resource", {"uri": "no uri", "name": "x"}),
        ("resource", {"uri": "wiki://{x}", "name": "x"}),
        ("template", {"uriTemplate": "wiki://{unclosed", "name": "x"}),
        ("prompt", {"name": "p", "arguments": [{"name": "a"}, {"name": "a"}]}),
        ("resource", {"uri": "wiki://big", "name": "x", "description": "x" * 300_000}),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_reason(kind, definition, connection):
    (row,) = offers(connection, **{kind: [definition]}).values()
    assert (row.state, bool(row.refusal)) == ("refused", True)


def test_what_is_written_here_stays_when_the_upstream_changes(connection):
    offers(connection, resource=[PAGE])
    resource = McpResource.objects.get(uri="wiki://page")
    resource.title = "Our title"
    resource.save()
    row = offers(connection, resource=[{**PAGE, "description": "Other.", "title": "Theirs"}])["wiki://page"]
    discovery.approve(row, author="ann")
    resource.refresh_from_db()
    assert (resource.title, resource.description) == ("Our title", "Other.")
    row.refresh_from_db()
    assert discovery.overrides(row) == {"title": ("Theirs", "Our title")}


def test_a_connection_that_is_switched_off_serves_none_of_it(connection):
    offers(connection, resource=[PAGE], prompt=[GREET])
    connection.enabled = False
    connection.save()
    assert not reads("wiki://page")
    assert not prompts("wiki_greet")


def test_nobody_writes_an_upstreams_resource_by_hand():
    with pytest.raises(ValidationError, match="approval"):
        McpResource(uri="wiki://mine", name="mine", backend="upstream").full_clean()


def test_another_uri_for_the_same_resource_is_seen_as_such(connection):
    offers(connection, resource=[PAGE])
    row = offers(connection, resource=[{**PAGE, "uri": "wiki://moved"}])["wiki://moved"]
    assert (row.renamed_from, row.state) == ("wiki://page", "new")
