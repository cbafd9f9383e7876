"""Providers in the admin: a key goes in and never comes out, nor to another host; the test asks for real."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from mcphub.features.chat.models import ChatModel, ChatProvider, ChatProviderState
from tests.features.chat.running import ScriptedProvider

pytestmark = pytest.mark.django_db
KEY = "sk-a-key-of-some-length"


@pytest.fixture
def provider() -> ChatProvider:
    row = ChatProvider(slug="openai", kind="openai", base_url="https://api.example.org/v1")
    row.set_secret(KEY)
    row.save()
    return row


def form(**changes: object) -> dict[str, object]:
    return {
        "kind": "openai",
        "base_url": "https://api.example.org/v1",
        "enabled": "on",
        "tools_offered": "auto",
        "headers": "{}",
        "retries": 2,
        "connect_seconds": 5,
        "first_byte_seconds": 60,
        "idle_seconds": 30,
        "total_seconds": 300,
        "breaker_failures": 5,
        **changes,
    }


def test_a_key_goes_in_and_never_comes_out(log_in, provider) -> None:
    client = log_in("Operator")
    page = reverse("admin:chat_chatprovider_change", args=[provider.pk])
    assert KEY not in client.get(page).content.decode()
    assert client.post(page, form(key="sk-another-long-key")).status_code == 302
    provider.refresh_from_db()
    assert provider.secret() == "sk-another-long-key"
    assert "another-long" not in client.get(page).content.decode()
    assert client.post(page, form()).status_code == 302
    provider.refresh_from_db()
    assert provider.secret() == "sk-another-long-key"


def test_a_key_does_not_go_to_another_host_unseen(log_in, provider) -> None:
    client = log_in("Operator")
    page = reverse("admin:chat_chatprovider_change", args=[provider.pk])
    answer = client.post(page, form(base_url="https://elsewhere.example/v1"))
    assert "another host" in answer.content.decode()
    assert client.post(page, form(base_url="https://elsewhere.example/v1", key=KEY)).status_code == 302
    assert client.post(page, form(base_url="https://third.example/v1", forget_key="on")).status_code == 302
    provider.refresh_from_db()
    assert (provider.base_url, provider.secret()) == ("https://third.example/v1", "")


def test_what_the_console_shows_is_taken_as_it_is(log_in) -> None:
    client = log_in("Operator")
    given = form(slug="maas", kind="huawei_maas", base_url="https://api.example.org/openai/v1/chat/completions/")
    assert client.post(reverse("admin:chat_chatprovider_add"), given).status_code == 302
    assert ChatProvider.objects.get(slug="maas").base_url == "https://api.example.org/openai/v1"


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/v1", "file:///etc/passwd", "https://user:pw@api.example.org/v1"]
)
def test_addresses_that_must_not_be_reached_are_refused(log_in, url: str) -> None:
    answer = log_in("Operator").post(reverse("admin:chat_chatprovider_add"), form(slug="bad", base_url=url))
    assert answer.status_code == 200
    assert not ChatProvider.objects.exists()


@pytest.mark.program
def test_the_test_asks_for_real_and_says_each_step(log_in, provider, settings) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)
    model = ChatModel.objects.create(provider=provider, name="scripted-large", is_default=True)
    page = reverse("admin:provider_test", args=[provider.pk])
    with ScriptedProvider(KEY) as running:
        ChatProvider.objects.update(base_url=running.url)
        told = log_in("Operator").post(page, {"model": model.pk}).content.decode()
        assert "Responds" in told
        assert "Streams" in told
        assert "It calls nothing" in told
        assert [each["headers"]["authorization"] for each in running.about("hi.")] == [f"Bearer {KEY}"] * 2
        provider.refresh_from_db()
        state = ChatProviderState.objects.create(
            provider=provider, failure_code="QUOTA_EXCEEDED", failure="No credit <left>.", failed_at=timezone.now()
        )
        change = reverse("admin:chat_chatprovider_change", args=[provider.pk])
        words = log_in("Viewer").get(change).content.decode()
        assert "Quota used up" in words
        assert "No credit &lt;left&gt;." in words
        log_in("Operator").post(page, {"model": model.pk})
        state.refresh_from_db()
        assert not state.is_failing
        assert "Recovered" in log_in("Viewer").get(reverse("admin:chat_chatprovider_changelist")).content.decode()
    told = log_in("Operator").post(page, {"model": model.pk}).content.decode()
    assert "cannot be reached" in told
    assert log_in("Viewer").post(page, {"model": model.pk}).status_code == 403


def test_a_credential_is_no_further_header(log_in, provider) -> None:
    page = reverse("admin:chat_chatprovider_change", args=[provider.pk])
    answer = log_in("Operator").post(page, form(headers='{"api-key": "0123456789abcdef0123456789abcdef"}'))
    assert "api-key contains a credential" in answer.content.decode()
    provider.refresh_from_db()
    assert provider.headers == {}
