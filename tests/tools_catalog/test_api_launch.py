"""Launch profiles, secrets and keys over REST: by name, never by value, and as strict as the console."""

from __future__ import annotations

import pytest

from sessions_app.models import ApiKey
from tests.factories import LaunchProfileFactory
from tests.rest import by_key, by_person, error_of
from tools_catalog.models import Secret

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
    error_of(client.post("/api/secrets/", {}), 405, "method_not_allowed")


def test_a_launch_profile_is_read_by_people_who_may_see_it_and_by_no_key() -> None:
    LaunchProfileFactory(name="git", arguments=["--stdio"], environment={"TOKEN": "{secret:git.TOKEN}"})
    person = by_person("tools_catalog.view_launchprofile", is_staff=True)
    given = person.get("/api/launch-profiles/git/").json()
    assert (given["arguments"], given["environment"]) == (["--stdio"], {"TOKEN": "{secret:git.TOKEN}"})
    said = error_of(by_key("catalog:write", "audit:read").get("/api/launch-profiles/"), 403, "forbidden")
    assert "not by keys" in said["message"]
    error_of(by_person("tools_catalog.view_mcpconnection").get("/api/launch-profiles/"), 403, "forbidden")


def test_keys_are_listed_without_their_texts() -> None:
    key, text = ApiKey.issue("robot", scopes=["tools:call"])
    client = by_key("audit:read")
    given = client.get(f"/api/keys/{key.prefix}/").json()
    assert (given["principal"], given["scopes"], given["revoked_at"]) == (f"key:{key.pk}", ["tools:call"], None)
    listed = client.get("/api/keys/").content.decode()
    assert not any(part in listed for part in (text, key.secret_hash))
    error_of(by_key("catalog:write").get("/api/keys/"), 403, "forbidden")
    error_of(client.delete(f"/api/keys/{key.prefix}/"), 405, "method_not_allowed")
