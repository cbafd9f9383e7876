"""The people behind each kind of principal, and who therefore decides about what it asks or proposes."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.test import RequestFactory
from django.utils import timezone

from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals.deciding import Decision, DecisionRefused, decide, decider_of
from mcphub.features.approvals.models import McpApproval
from mcphub.features.signin.grants import services
from sessions_app import accountable
from sessions_app.accountable import Party
from sessions_app.caller import ANONYMOUS, caller_of, caller_of_key, local_caller
from sessions_app.history import deciding
from sessions_app.history.deciding import ConfirmationRefused
from sessions_app.history.source import ADMIN, REST, edits_via
from sessions_app.models import ApiKey, McpWorkspace, WaitingChange
from sessions_app.rest.access import KeyPrincipal
from tests.factories import McpToolDefinitionFactory, UserFactory
from tests.rest import by_token

pytestmark = pytest.mark.django_db


def by(user: Any) -> Any:
    """Let edits inside be those of a person, or of a key over REST; None: of whoever runs the machine."""
    if user is None:
        return nullcontext()
    request = RequestFactory().get("/")
    request.user = KeyPrincipal(user) if isinstance(user, ApiKey) else user
    return edits_via(REST if isinstance(user, ApiKey) else ADMIN, request)


def key_by(user: Any, **fields: Any) -> ApiKey:
    with by(user):
        return ApiKey.issue("a key", **fields)[0]


def rotated_by(key: ApiKey, user: Any) -> ApiKey:
    with by(user):
        key.rotate(timedelta(hours=1))
    return key


def of_key(key: ApiKey) -> Party:
    caller = caller_of_key(key)
    return Party(caller.principal, caller.credential)


def of_service(by_whom: Any) -> Party:
    made = services.make(f"robot-{uuid.uuid4().hex[:8]}", "/mcp", ["tools:call"], [], answers=by_whom)
    assert made.client.user is not None
    caller = caller_of(made.client.user)
    return Party(caller.principal, caller.credential)


def of_person(person: Any) -> Party:
    caller = caller_of(person)
    return Party(caller.principal, caller.credential)


class Cast:
    """Two operators and a superuser, who make credentials."""

    def __init__(self) -> None:
        self.ada, self.bob = (operator(name) for name in ("ada", "bob"))
        self.root = UserFactory(username="root", is_staff=True, is_superuser=True)
        self.team = McpWorkspace.objects.create(slug="team")

    def people(self, names: str) -> set[int]:
        return {getattr(self, name).pk for name in names.split()}


def operator(name: str) -> Any:
    person = UserFactory(username=name, is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    return person


KINDS: dict[str, tuple[str, bool, Callable[[Cast], Party]]] = {
    "a person": ("ada", True, lambda c: of_person(c.ada)),
    "another person": ("bob", True, lambda c: of_person(c.bob)),
    "a person's key": ("ada", True, lambda c: of_key(key_by(c.ada, owner=c.ada))),
    "a person's key that a superuser made": ("bob root", True, lambda c: of_key(key_by(c.root, owner=c.bob))),
    "a person's key that a command made": ("bob", True, lambda c: of_key(key_by(None, owner=c.bob))),
    "a key that a person made": ("ada", True, lambda c: of_key(key_by(c.ada))),
    "a service's key": ("ada", True, lambda c: of_key(key_by(c.ada, service="crawler"))),
    "a key for the chat": ("bob", True, lambda c: of_key(key_by(c.bob, scopes=["chat"]))),
    "a directory's key": ("ada", True, lambda c: of_key(key_by(c.ada, scopes=["people:write"]))),
    "a workspace's key": ("ada", True, lambda c: of_key(key_by(c.ada, workspace=c.team))),
    "a key that a key made": ("ada", True, lambda c: of_key(key_by(key_by(c.ada)))),
    "a key that a key of a key made": ("ada", True, lambda c: of_key(key_by(key_by(key_by(c.ada))))),
    "a key that a person's key made": ("bob", True, lambda c: of_key(key_by(key_by(c.bob, owner=c.bob)))),
    "a key that another person rotated": ("ada bob", True, lambda c: of_key(rotated_by(key_by(c.bob), c.ada))),
    "a key that another's key rotated": ("ada bob", True, lambda c: of_key(rotated_by(key_by(c.bob), key_by(c.ada)))),
    "a key that a command made": ("", False, lambda c: of_key(key_by(None))),
    "a key that a command's key made": ("", False, lambda c: of_key(key_by(key_by(None)))),
    "a command's key that a person rotated": ("ada", False, lambda c: of_key(rotated_by(key_by(None), c.ada))),
    "a person's key that a command rotated": ("ada", False, lambda c: of_key(rotated_by(key_by(c.ada), None))),
    "a service account of a person": ("bob", True, lambda c: of_service(c.bob)),
    "a service account of nobody": ("", False, lambda c: of_service(None)),
    "the machine's user": ("", False, lambda c: Party(local_caller().principal, local_caller().credential)),
    "a command": ("", False, lambda c: Party("machine", "local:0")),
    "anonymous": ("", False, lambda c: Party(ANONYMOUS.principal, ANONYMOUS.credential)),
}
"""Kind -> the people behind it, whether nobody else is, and how one comes to be."""


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_principal_has_its_people(kind: str) -> None:
    people, is_known, make = KINDS[kind]
    cast = Cast()
    found = accountable.behind(make(cast))
    assert (found.people, found.is_known) == (cast.people(people), is_known)


def test_two_principals_are_one_person_where_somebody_is_behind_both() -> None:
    cast = Cast()
    made = {kind: make(cast) for kind, (_people, _known, make) in KINDS.items()}
    # The command names the operating system's user as its credential, and is whoever runs stdio clients as that user.
    same_user = {"the machine's user", "a command"} if local_caller().principal == "local:0" else set()
    wrong = [
        (one, other)
        for one, other in itertools.product(KINDS, repeat=2)
        if accountable.is_one_person(made[one], made[other])
        != bool(one == other or set(KINDS[one][0].split()) & set(KINDS[other][0].split()) or {one, other} == same_user)
    ]
    assert not wrong


# Calls that wait -----------------------------------------------------------------------------------------


def waiting(asker: Party) -> McpApproval:
    now = timezone.now()
    row: McpApproval = McpApproval.objects.create(
        id=f"appr_{uuid.uuid4().hex}",
        binding=uuid.uuid4().hex,
        principal=asker.principal,
        credential=asker.credential,
        tool_name="drop",
        arguments={},
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )
    return row


def outcome_of_yes(row: McpApproval, person: Any) -> str:
    try:
        return str(decide(row, Decision(approve=True), decider_of(person), RecordRedaction()).status)
    except DecisionRefused as refused:
        return refused.why


@pytest.mark.parametrize("decider", ["ada", "bob", "root"])
@pytest.mark.parametrize("kind", KINDS)
def test_nobody_approves_a_call_of_a_principal_that_they_are_behind(kind: str, decider: str) -> None:
    people, is_known, make = KINDS[kind]
    cast = Cast()
    asker = make(cast)
    if decider in people.split():
        expected = "own"
    elif is_known or decider == "root":
        expected = "approved"
    else:
        expected = "pending"  # whoever says yes may be whoever asked
    assert outcome_of_yes(waiting(asker), getattr(cast, decider)) == expected


def test_a_call_of_a_key_for_which_nobody_answers_takes_two_people() -> None:
    cast = Cast()
    row = waiting(of_key(key_by(None)))
    assert outcome_of_yes(row, cast.ada) == "pending"
    row.refresh_from_db()
    assert (row.given, row.needed) == (1, 2)
    assert outcome_of_yes(row, cast.ada) == "twice"
    assert outcome_of_yes(row, cast.bob) == "approved"


# Changes that wait ---------------------------------------------------------------------------------------


def proposed(key: ApiKey) -> WaitingChange:
    """Return a change that a key proposes over REST."""
    tool = McpToolDefinitionFactory()
    client = by_token(key.rotate())
    path = f"/api/tool-definitions/{tool.name}/"
    answer = client.patch(path, {"destructive": False}, content_type="application/json")
    assert answer.status_code == 202, answer.content
    return WaitingChange.objects.get(pk=answer.json()["waiting_change"])


def test_who_made_the_key_that_made_a_key_does_not_confirm_what_it_proposes() -> None:
    cast = Cast()
    _first, token = ApiKey.issue("first", scopes=["keys:write", "catalog:write"], created_by=cast.ada)
    body = {"name": "second", "scopes": ["catalog:write"]}
    made = by_token(token).post("/api/keys/", body, content_type="application/json")
    assert made.status_code == 201, made.content
    tool = McpToolDefinitionFactory()
    path = f"/api/tool-definitions/{tool.name}/"
    client = by_token(made.json()["text"])
    client.patch(path, {"destructive": False}, content_type="application/json")
    change = WaitingChange.objects.get(state="waiting")
    with pytest.raises(ConfirmationRefused, match="answer for the key"):
        deciding.confirm(change.pk, cast.ada, "")
    assert deciding.confirm(change.pk, cast.bob, "") is True


def test_who_rotated_a_key_does_not_confirm_what_it_proposes() -> None:
    cast = Cast()
    key = rotated_by(key_by(cast.bob, scopes=["catalog:write"]), cast.ada)
    with by(cast.bob):
        change = proposed(key)
    for person in (cast.ada, cast.bob):
        with pytest.raises(ConfirmationRefused, match="answer for the key"):
            deciding.confirm(change.pk, person, "")


def test_a_change_of_a_key_for_which_nobody_answers_takes_two_people() -> None:
    cast = Cast()
    change = proposed(key_by(None, scopes=["catalog:write"]))
    assert deciding.confirm(change.pk, cast.ada, "seen") is False
    change.refresh_from_db()
    assert (change.state, change.confirmations) == ("waiting", [[f"user:{cast.ada.pk}", "ada"]])
    with pytest.raises(ConfirmationRefused, match="already"):
        deciding.confirm(change.pk, cast.ada, "")
    assert deciding.confirm(change.pk, cast.bob, "") is True
    change.refresh_from_db()
    assert change.state == "confirmed"


def test_a_superuser_confirms_a_change_of_a_key_for_which_nobody_answers_alone() -> None:
    cast = Cast()
    assert deciding.confirm(proposed(key_by(None, scopes=["catalog:write"])).pk, cast.root, "") is True


def test_once_somebody_is_named_one_other_person_is_enough() -> None:
    cast = Cast()
    key = key_by(None)
    accountable.name(key.credential, [cast.ada.pk])
    assert accountable.names_of(key.credential) == ["ada"]
    assert outcome_of_yes(waiting(of_key(key)), cast.ada) == "own"
    assert outcome_of_yes(waiting(of_key(key)), cast.bob) == "approved"
