"""What a secret is bound to, where it is saved and imported."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError

from mcphub.features.importers import fetching
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.history.models import AuditEvent
from tests.factories import HttpServiceFactory, McpToolDefinitionFactory
from tests.tools_catalog.backends.backend_peers import Received, reply, serving
from tools_catalog.bindings import origin_of
from tools_catalog.models import LaunchProfile, McpConnection, McpToolDefinition, Secret

pytestmark = pytest.mark.django_db
TOKEN = "the-token/of+the house"
CARRIED = {"Authorization": "Bearer {secret:token}"}


def keep(**bound: str) -> Secret:
    row = Secret(name="token", **{"origins": "https://api.example.org", **bound})
    row.set_value(TOKEN)
    row.full_clean()
    row.save()
    return row


def tool(**configuration: object) -> McpToolDefinition:
    given = {"url": "https://api.example.org/x", **configuration}
    return McpToolDefinitionFactory.build(name="weather", backend="http", configuration=given)


@pytest.mark.parametrize(
    ("configuration", "what"),
    [
        ({"method": "POST", "body": {"text": "{secret:token}"}}, "body"),
        ({"method": "POST", "body": "{secret:token}", "body_encoding": "text"}, "body"),
        ({"query": {"q": "{secret:token}"}}, "query.q"),
        ({"url": "https://api.example.org/?q={secret:token}"}, "query.q"),
        ({"headers": {"X-Echo": "{secret:token}"}}, "headers.X-Echo"),
        ({"headers": CARRIED, "url": "https://api.example.org:8443/"}, "https://api.example.org:8443"),
        ({"headers": CARRIED, "url": "http://api.example.org/"}, "http://api.example.org"),
    ],
)
def test_a_tool_that_sends_a_secret_elsewhere_is_not_saved(configuration: dict[str, object], what: str) -> None:
    keep(users="tool:weather")
    tool(headers=CARRIED).full_clean()
    with pytest.raises(ValidationError, match=f"The secret token is not approved for {what}"):
        tool(**configuration).full_clean()


def test_only_what_the_owner_approved_is_saved() -> None:
    secret = keep()
    service = HttpServiceFactory.build(slug="tickets", headers=CARRIED)
    far = McpConnection(slug="far", transport="sse", url="https://api.example.org/sse", headers=CARRIED)
    profile = LaunchProfile(name="runner", command="true", environment={"TOKEN": "{secret:token}"})
    for row in (tool(headers=CARRIED), service, far, profile):
        with pytest.raises(ValidationError, match="The secret token is not approved for"):
            row.full_clean()
    secret.origins += " runner.stdio"
    secret.users = "tool:weather service:tickets connection:far"
    secret.full_clean()
    secret.save()
    for row in (tool(headers=CARRIED), service, far, profile):
        row.full_clean()
    service.save()
    other = tool(service="tickets", url="/x", headers={"authorization": "{secret:token}"})
    other.name = "of_the_service"
    other.full_clean()


def test_a_description_is_fetched_with_credentials_from_the_full_origin_only(settings) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)

    def echo(request: Received, writer) -> None:
        writer.write(reply(200, request.headers.get("authorization", "none").encode(), "text/plain"))

    async def fetched() -> tuple[bytes, bytes]:
        from asgiref.sync import sync_to_async

        async with serving(echo) as own, serving(echo) as other:
            await sync_to_async(keep)(origins=origin_of(own.url), users="service:tickets")
            await sync_to_async(HttpServiceFactory)(slug="tickets", url=own.url, headers=CARRIED)
            there = await fetching.fetch(f"{other.url}/openapi.json", "openapi", "tickets")
            return await fetching.fetch(f"{own.url}/openapi.json?q=1", "openapi", "tickets"), there

    here, there = async_to_sync(fetched)()
    assert here == b"Bearer [secret]"
    assert there == b"none"
    events = AuditEvent.objects.filter(kind="description.fetched").order_by("pk")
    assert [(event.subject_id, event.after["headers"]) for event in events] == [
        ("tickets", []),
        ("tickets", ["Authorization"]),
    ]
    assert events[1].subject_label.endswith("/openapi.json")
    Secret.objects.update(users="")
    HttpServiceFactory._meta.model.objects.update(url="http://127.0.0.1:9")
    Secret.objects.update(origins="http://127.0.0.1:9")
    with pytest.raises(DocumentRefused, match="service:tickets"):
        async_to_sync(fetching.fetch)("http://127.0.0.1:9/openapi.json", "openapi", "tickets")
