"""Providers over REST: programs read them without keys, people write them, and a key goes to no other host."""

from __future__ import annotations

from typing import Any

import pytest

from mcphub.features.chat.models import ChatModel, ChatProvider, ChatProviderState
from sessions_app.history.models import AuditEvent
from tests.features.chat import rows
from tests.features.chat.running import ScriptedProvider
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

PROVIDERS = "/api/providers/"
PROVIDER = {"slug": "local", "kind": "compatible", "base_url": "https://models.example/v1", "enabled": False}
SECRET = "sk-a-long-secret-of-a-provider"
RIGHTS = [f"chat.{deed}_chatprovider" for deed in ("view", "add", "change")]


def send(client: Any, method: str, where: str, **body: Any) -> Any:
    return getattr(client, method)(where, body, content_type="application/json")


def test_a_person_writes_a_provider_whose_key_nobody_reads() -> None:
    person = by_person(*RIGHTS, is_staff=True)
    made = send(person, "post", PROVIDERS, **PROVIDER, key=SECRET)
    assert (made.status_code, made.json()["has_key"]) == (201, True), made.content
    row = ChatProvider.objects.get(slug="local")
    assert row.secret() == SECRET
    one = f"{PROVIDERS}local/"
    changed = send(person, "patch", one, retries=1, reason="slow")
    assert (changed.json()["retries"], changed.json()["has_key"]) == (1, True)
    told = (made, changed, person.get(PROVIDERS), by_key("catalog:write").get(one))
    for answer in told:
        text = answer.content.decode()
        assert not any(part in text for part in (SECRET, SECRET[-4:], row.ciphertext, row.fingerprint, row.mask))
    assert not any(SECRET in str(event) for event in AuditEvent.objects.values_list())
    assert AuditEvent.objects.filter(subject_label="local").latest("id").reason == "slow"
    assert send(person, "patch", one, key="").json()["has_key"] is False


def test_a_stored_key_is_not_sent_to_another_host() -> None:
    person = by_person(*RIGHTS)
    send(person, "post", PROVIDERS, **PROVIDER, key=SECRET)
    one = f"{PROVIDERS}local/"
    for address in ("https://evil.example/v1", "http://models.example/v1", "https://models.example:8443/v1"):
        said = error_of(send(person, "patch", one, base_url=address), 409, "conflict")
        assert "key" in said["details"]["fields"] or "base_url" in said["details"]["fields"]
    row = ChatProvider.objects.get(slug="local")
    assert (row.base_url, row.secret()) == (PROVIDER["base_url"], SECRET)
    assert send(person, "patch", one, base_url="https://models.example/v2").status_code == 200
    assert send(person, "patch", one, base_url="https://other.example/v1", key="sk-another-secret").status_code == 200
    assert ChatProvider.objects.get(slug="local").secret() == "sk-another-secret"


def test_a_program_reads_providers_with_their_state_and_writes_none() -> None:
    rows.provide("openai", "openai", "https://api.openai.example/v1")
    row = ChatProvider.objects.get(slug="openai")
    program = by_key("catalog:write")
    given = program.get(f"{PROVIDERS}openai/").json()
    assert (given["state"], given["models"]) == (None, sorted(each.public_id for each in row.models.all()))
    ChatProviderState.objects.create(provider=row, failure_code="TIMEOUT", failure="No byte came.")
    assert program.get(f"{PROVIDERS}openai/").json()["state"]["failure_code"] == "TIMEOUT"
    for method, where in (("post", PROVIDERS), ("patch", f"{PROVIDERS}openai/"), ("delete", f"{PROVIDERS}openai/")):
        error_of(send(program, method, where, enabled=False), 403, "forbidden")
    error_of(by_key("audit:read").get(PROVIDERS), 403, "forbidden")
    error_of(send(by_person(*RIGHTS), "delete", f"{PROVIDERS}openai/"), 403, "forbidden")
    assert send(by_person(is_superuser=True), "delete", f"{PROVIDERS}openai/").status_code == 204


@pytest.mark.parametrize(
    ("body", "status", "member"),
    [
        ({"slug": "A B"}, 400, "slug"),
        ({"base_url": "https://models.example/v1?x=1"}, 409, "base_url"),
        ({"base_url": "http://[::1"}, 409, "base_url"),
        ({"base_url": "https://models.example:99999/v1"}, 409, "base_url"),
        ({"headers": {"Authorization": "Bearer x"}}, 409, "headers"),
        ({"headers": []}, 400, "headers"),
        ({"retries": 9}, 400, "retries"),
        ({"mask": "x"}, 400, "mask"),
    ],
)
def test_what_is_wrong_about_a_provider_is_named(body: dict[str, Any], status: int, member: str) -> None:
    code = "conflict" if status == 409 else "invalid_params"
    error = error_of(send(by_person(*RIGHTS), "post", PROVIDERS, **PROVIDER | body), status, code)
    assert member in error["details"]["fields"]


def test_providers_are_found_by_kind_and_a_list_asks_as_much_for_many(django_assert_num_queries: Any) -> None:
    for number in range(10):
        rows.provide(f"p{number}", "compatible", f"https://p{number}.example/v1")
    client = by_person(is_superuser=True)
    assert client.get(PROVIDERS, {"kind": "openai"}).json()["results"] == []
    with django_assert_num_queries(5):  # session, person, workspaces, rows with their states, models
        assert len(client.get(PROVIDERS, {"enabled": "true"}).json()["results"]) == 10


# Tried, and their models ----------------------------------------------------------------------------------


def test_a_test_asks_for_real_and_says_each_step(settings: Any) -> None:
    settings.MCPHUB_EGRESS_ALLOW = ("127.0.0.1",)
    person = by_person("chat.view_chatprovider", "chat.test_chatprovider")
    with ScriptedProvider(SECRET) as running:
        rows.provide("local", "compatible", running.url, SECRET, {"scripted-large": {}})
        told = send(person, "post", f"{PROVIDERS}local/test/", model="scripted-large").json()
        kinds = {step["kind"]: step["is_good"] for step in told["steps"]}
        assert (kinds["address"], kinds["key"], kinds["answer"], kinds["stream"], kinds["tools"]) == (
            *[True] * 4,
            False,
        )
        assert told["is_good"] is False
        assert SECRET not in str(told)
        assert running.about("hi.")
    away = send(person, "post", f"{PROVIDERS}local/test/").json()["steps"]
    assert "cannot be reached" in away[-1]["outcome"]


def test_a_test_names_the_models_that_there_are() -> None:
    person = by_person("chat.view_chatprovider", "chat.test_chatprovider")
    rows.provide("local", "compatible", "https://models.example/v1", models={"llama": {}})
    refused = error_of(send(person, "post", f"{PROVIDERS}local/test/", model="lama"), 409, "conflict")
    assert "It has: llama." in str(refused)
    ChatModel.objects.all().delete()
    assert "no model yet" in str(error_of(send(person, "post", f"{PROVIDERS}local/test/"), 409, "conflict"))
    error_of(send(by_key("catalog:write"), "post", f"{PROVIDERS}local/test/"), 403, "forbidden")


def test_models_are_written_with_what_they_can_do() -> None:
    rows.provide("openai", "openai", "https://api.openai.example/v1")
    key = by_key("catalog:write")
    made = send(key, "post", "/api/models/", provider="openai", name="gpt-5", aliases=["default"], is_default=True)
    assert made.status_code == 201, made.content
    assert made.json()["public_id"] == "openai/gpt-5"
    one = f"/api/models/{made.json()['id']}/"
    assert send(key, "patch", one, tools=False, reason="cannot").json()["tools"] is False
    assert AuditEvent.objects.filter(subject_label="openai/gpt-5").latest("id").reason.endswith("cannot")
    error_of(send(key, "patch", one, fallbacks=[""]), 400, "invalid_params")
    error_of(send(key, "patch", one, fallbacks={"a": 1}), 400, "invalid_params")
    error_of(send(key, "post", "/api/models/", provider="openai", name="gpt-5"), 409, "conflict")
    second = send(key, "post", "/api/models/", provider="openai", name="small", is_default=True)
    assert "default" in str(error_of(second, 409, "conflict"))
    listed = key.get("/api/models/", {"provider": "openai", "enabled": "true"}).json()["results"]
    assert [row["name"] for row in listed] == ["gpt-5"]
    assert key.delete(one).status_code == 204
    assert not ChatModel.objects.exists()
