"""Launch profiles, secrets and keys over REST: by name, never by value, and as strict as the console."""

from __future__ import annotations

import pytest

from sessions_app.history.models import AuditEvent
from sessions_app.models import ApiKey
from tests.factories import LaunchProfileFactory
from tests.rest import by_key, by_person, error_of
from tools_catalog.models import LaunchProfile, Secret

pytestmark = pytest.mark.django_db


def secret() -> Secret:
    row = Secret(name="git.TOKEN", origins="git.stdio", places="environment.TOKEN")
    row.set_value("a-long-secret-value")
    row.save()
    return row


def test_a_secret_is_given_by_its_name_and_bindings_alone() -> None:
    row = secret()
    client = by_key("catalog:write")
    given = client.get("/api/secrets/git.TOKEN/").json()
    assert set(given) == {"name", "origins", "places", "users", "updated_at"}
    listed = client.get("/api/secrets/").content.decode()
    assert "git.TOKEN" in listed
    assert not any(part in listed for part in ("a-long-secret", row.ciphertext, row.fingerprint, row.mask))
    error_of(by_key("tools:list").get("/api/secrets/"), 403, "forbidden")
    said = error_of(client.post("/api/secrets/", {}), 403, "forbidden")
    assert "not by keys" in said["message"]


def test_a_person_writes_a_secret_whose_value_nobody_reads() -> None:
    rights = [f"tools_catalog.{deed}_secret" for deed in ("view", "add", "change", "delete")]
    person = by_person(*rights, is_staff=True)
    words = {"name": "git", "origins": "https://git.example", "users": "service:git", "value": " a-long-secret "}
    made = person.post("/api/secrets/", words, content_type="application/json")
    assert made.status_code == 201, made.content
    assert "value" not in made.json()
    assert Secret.objects.get().value() == " a-long-secret "
    error_of(person.post("/api/secrets/", words, content_type="application/json"), 409, "conflict")
    changed = person.patch(
        "/api/secrets/git/", {"value": "another-one", "reason": "old"}, content_type="application/json"
    )
    assert changed.status_code == 200
    assert Secret.objects.get().value() == "another-one"
    bound = person.patch("/api/secrets/git/", {"origins": "https://new.example"}, content_type="application/json")
    assert bound.json()["origins"] == "https://new.example"
    assert Secret.objects.get().value() == "another-one"
    renamed = person.patch("/api/secrets/git/", {"name": "other"}, content_type="application/json")
    error_of(renamed, 400, "invalid_params")
    error_of(by_person("tools_catalog.view_secret").delete("/api/secrets/git/"), 403, "forbidden")
    assert person.delete("/api/secrets/git/").status_code == 204
    assert AuditEvent.objects.filter(kind__startswith="secret", subject_label="git").count() == 4
    assert not any("another-one" in str(event) for event in AuditEvent.objects.values_list())


def test_a_launch_profile_is_read_by_people_who_may_see_it_and_by_no_key() -> None:
    LaunchProfileFactory(name="git", arguments=["--stdio"], environment={"TOKEN": "{secret:git.TOKEN}"})
    person = by_person("tools_catalog.view_launchprofile", is_staff=True)
    given = person.get("/api/launch-profiles/git/").json()
    assert (given["arguments"], given["environment"]) == (["--stdio"], {"TOKEN": "{secret:git.TOKEN}"})
    said = error_of(by_key("catalog:write", "audit:read").get("/api/launch-profiles/"), 403, "forbidden")
    assert "not by keys" in said["message"]
    error_of(by_person("tools_catalog.view_mcpconnection").get("/api/launch-profiles/"), 403, "forbidden")


def test_a_launch_profile_is_written_by_people_as_in_the_console() -> None:
    words = {"name": "git", "command": "git", "arguments": ["--version"], "reason": "for all"}
    path = "/api/launch-profiles/"
    error_of(by_key("catalog:write").post(path, words, content_type="application/json"), 403, "forbidden")
    viewer = by_person("tools_catalog.view_launchprofile", is_staff=True)
    error_of(viewer.post(path, words, content_type="application/json"), 403, "forbidden")
    rights = [f"tools_catalog.{deed}_launchprofile" for deed in ("view", "add", "change")]
    manager = by_person(*rights, username="manager", is_staff=True)
    made = manager.post(path, words, content_type="application/json")
    assert (made.status_code, made.json()["arguments"]) == (201, ["--version"]), made.content
    wrong = manager.patch(f"{path}git/", {"arguments": "--version"}, content_type="application/json")
    error_of(wrong, 409, "conflict")
    assert manager.patch(f"{path}git/", {"memory_mb": 64}, content_type="application/json").status_code == 200
    error_of(manager.patch(f"{path}git/", {"name": "other"}, content_type="application/json"), 400, "invalid_params")
    event = AuditEvent.objects.filter(subject_label="git").earliest("pk")
    assert (event.actor_label, event.reason) == ("manager", "for all")


def test_only_superusers_let_a_program_do_everything_or_exchange_one_that_may() -> None:
    rights = [f"tools_catalog.{deed}_launchprofile" for deed in ("view", "add", "change")]
    manager = by_person(*rights, is_staff=True)
    free = {"is_unconfined": True}
    LaunchProfileFactory(name="held")
    LaunchProfileFactory(name="free", **free)
    for name, change in (("held", free), ("free", {"command": "sh"}), ("free", {"is_unconfined": False})):
        answer = manager.patch(f"/api/launch-profiles/{name}/", change, content_type="application/json")
        error_of(answer, 403, "forbidden")
    root = by_person(username="root", is_superuser=True, is_staff=True)
    assert root.patch("/api/launch-profiles/held/", free, content_type="application/json").status_code == 200
    assert LaunchProfile.objects.get(name="held").is_unconfined


def test_keys_are_listed_without_their_texts() -> None:
    key, text = ApiKey.issue("robot", scopes=["tools:call"])
    client = by_key("audit:read")
    given = client.get(f"/api/keys/{key.prefix}/").json()
    assert (given["principal"], given["scopes"], given["revoked_at"]) == (f"key:{key.pk}", ["tools:call"], None)
    listed = client.get("/api/keys/").content.decode()
    assert not any(part in listed for part in (text, key.secret_hash))
    error_of(by_key("catalog:write").get("/api/keys/"), 403, "forbidden")
    error_of(client.delete(f"/api/keys/{key.prefix}/"), 405, "method_not_allowed")


def test_a_relative_command_without_a_directory_is_refused_with_the_mend() -> None:
    person = by_person("tools_catalog.add_launchprofile", is_staff=True)
    words = {"name": "notes", "command": "./server.py"}
    said = error_of(person.post("/api/launch-profiles/", words, content_type="application/json"), 409, "conflict")
    assert "as the directory" in str(said)
