"""The caller of a subscription: looked up anew at each delivery, by the credential that made it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.utils import timezone
from oauth2_provider.models import Application

from mcphub.features.events.subscriber import EventSubscriber
from mcphub.features.signin.models import Consent
from sessions_app.caller import Caller, caller_of_key
from sessions_app.models import ApiKey, McpWorkspace
from tools_catalog.catalog.snapshot import Catalog

pytestmark = pytest.mark.django_db
OPERATORS_ONLY = "audit.alarm"


def stored(subscriber: EventSubscriber) -> EventSubscriber:
    """Return it as another process reads it."""
    return EventSubscriber.load(subscriber.stored())


def of_key(**fields: object) -> tuple[ApiKey, EventSubscriber]:
    key, _ = ApiKey.issue("robot", scopes=["tools:list", "audit:read"], **fields)
    return key, stored(EventSubscriber(caller_of_key(key)))


def person(*groups: str) -> User:
    user = User.objects.create_user("person")
    user.groups.set(Group.objects.get_or_create(name=name)[0] for name in groups)
    return user


def test_a_key_counts_with_the_scopes_that_it_has_now() -> None:
    key, subscriber = of_key()
    before = subscriber.receiver(Catalog.load(None))
    assert before is not None
    assert before.may_get(OPERATORS_ONLY)
    key.scopes = ["tools:list"]
    key.save()
    after = subscriber.receiver(Catalog.load(None))
    assert after is not None
    assert not after.may_get(OPERATORS_ONLY)
    key.scopes = ["tools:call"]
    key.save()
    assert subscriber.receiver(Catalog.load(None)) is None


def test_a_key_that_is_revoked_or_over_receives_nothing() -> None:
    key, subscriber = of_key()
    ApiKey.objects.filter(pk=key.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert subscriber.receiver(Catalog.load(None)) is None
    ApiKey.objects.filter(pk=key.pk).update(expires_at=None)
    assert subscriber.receiver(Catalog.load(None)) is not None
    ApiKey.objects.filter(pk=key.pk).revoke()  # type: ignore[attr-defined]
    assert subscriber.receiver(Catalog.load(None)) is None


def test_a_disabled_person_ends_the_subscriptions_of_their_keys() -> None:
    owner = person("Viewer")
    _, subscriber = of_key(owner=owner)
    assert subscriber.receiver(Catalog.load(None)) is not None
    User.objects.update(is_active=False)
    assert subscriber.receiver(Catalog.load(None)) is None


def test_a_client_receives_while_its_person_authorizes_it() -> None:
    user = person()
    client = Application.objects.create(name="app", client_type="public", authorization_grant_type="authorization-code")
    caller = Caller(
        principal=f"user:{user.pk}",
        label="person via app",
        scopes=frozenset({"tools:list"}),
        allowed_client=f"app (client {client.pk})",
    )
    subscriber = stored(EventSubscriber(caller))
    assert subscriber.lasts
    assert subscriber.receiver(Catalog.load(None)) is None
    consent = Consent.give(user, client, "/mcp", ["tools:list"])
    assert subscriber.receiver(Catalog.load(None)) is not None
    consent.revoke()
    assert subscriber.receiver(Catalog.load(None)) is None
    assert not EventSubscriber(replace(caller, allowed_client="app of https://issuer.example")).lasts


def test_who_leaves_the_workspace_of_the_address_receives_nothing() -> None:
    own = McpWorkspace.objects.create(slug="ours")
    own.members.add(Group.objects.create(name="ours members"))
    user = person("ours members")
    key, _ = ApiKey.issue("robot", scopes=["tools:list"], owner=user)
    key.groups.set(user.groups.all())
    catalog = Catalog.load(None)
    caller = caller_of_key(key)
    subscriber = stored(EventSubscriber(caller.within(catalog.workspace("ours", caller))))
    receiver = subscriber.receiver(catalog)
    assert receiver is not None
    assert receiver.caller.workspace_slug == "ours"
    user.groups.clear()
    assert subscriber.receiver(Catalog.load(None)) is None


def test_an_address_that_is_gone_receives_nothing() -> None:
    key, _ = ApiKey.issue("robot", scopes=["tools:list"])
    assert stored(EventSubscriber(caller_of_key(key), "gone")).receiver(Catalog.load(None)) is None
