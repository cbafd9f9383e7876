"""A directory makes, changes and disables people by SCIM, within what its key may reach, and on record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client

from mcphub.features.login.models import LinkedIdentity, LoginProvider
from mcphub.features.login.providers import people
from mcphub.features.login.providers.oidc import LoginRefused
from mcphub.features.scim.models import ProvisionedPerson
from mcphub.features.scim.views import MOST_MEMBERS, MOST_OPERATIONS
from mcphub.features.signin.grants import services
from sessions_app.models import ApiKey, AuditEvent
from tests.mcphub.admin.conftest import _ground, log_in  # noqa: F401

pytestmark = pytest.mark.django_db

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"
ADA: dict[str, Any] = {
    "schemas": [USER, ENTERPRISE],
    "externalId": "00u1",
    "userName": "ada@firm.example",
    "name": {"formatted": "Ada L", "givenName": "Ada", "familyName": "L"},
    "displayName": "Ada L",
    "emails": [{"value": "ada@firm.example", "type": "work", "primary": True}],
    "active": True,
    "password": "never kept",
    ENTERPRISE: {"department": "Engines"},
}


class Directory:
    """What speaks SCIM, with its key."""

    def __init__(self, *groups: Group, scopes: tuple[str, ...] = ("people:write",)) -> None:
        self.row, text = ApiKey.issue("Directory", scopes=list(scopes), groups=groups)
        self.client = Client(headers={"authorization": f"Bearer {text}"})

    def asks(self, method: str, path: str, body: Any = None, **query: Any) -> Any:
        sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        query_string = {"QUERY_STRING": "&".join(f"{name}={value}" for name, value in query.items())} if query else {}
        return self.client.generic(
            method, f"/scim/v2/{path}", sent, content_type="application/scim+json", **query_string
        )

    def makes(self, kind: str, body: Any) -> Any:
        answer = self.asks("POST", kind, body)
        assert answer.status_code == 201, answer.content
        return answer.json()

    def patches(self, path: str, *operations: dict[str, Any]) -> Any:
        answer = self.asks("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})
        assert answer.status_code == 200, answer.content
        return answer.json()

    def found(self, kind: str, condition: str) -> list[str]:
        answer = self.asks("GET", kind, filter=condition.replace(" ", "%20").replace('"', "%22"))
        assert answer.status_code == 200, answer.content
        return [each["id"] for each in answer.json()["Resources"]]


@pytest.fixture
def directory() -> Directory:
    return Directory()


def error_of(answer: Any) -> tuple[int, str]:
    body = answer.json()
    assert body["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
    assert body["status"] == str(answer.status_code)
    assert body["detail"]
    assert answer["Content-Type"] == "application/scim+json"
    return answer.status_code, body.get("scimType", "")


# People ----------------------------------------------------------------------------------------------------


def test_a_directory_makes_an_account_without_a_password(directory: Directory) -> None:
    answer = directory.asks("POST", "Users", ADA)
    made = answer.json()
    user = User.objects.get(pk=made["id"])
    assert answer["Location"] == made["meta"]["location"] == f"http://127.0.0.1:8000/scim/v2/Users/{user.pk}"
    assert (user.username, user.email, user.get_full_name()) == ("ada@firm.example", "ada@firm.example", "Ada L")
    assert (user.is_active, user.is_staff, user.has_usable_password()) == (True, False, False)
    assert made["externalId"] == "00u1"
    assert "password" not in made
    event = AuditEvent.objects.get(kind="user.created", subject_id=made["id"])
    assert (event.actor, event.via) == (f"key:{directory.row.pk}", "rest")
    assert directory.asks("GET", f"Users/{made['id']}").json() == made


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "Replace", "path": "active", "value": "False"},
        {"op": "replace", "path": "active", "value": False},
        {"op": "replace", "value": {"active": False}},
    ],
    ids=["as Entra ID", "with a path", "as Okta"],
)
def test_a_person_who_is_deactivated_loses_everything_for_good(directory: Directory, operation: dict[str, Any]) -> None:
    made = directory.makes("Users", ADA)
    user = User.objects.get(pk=made["id"])
    key, _text = ApiKey.issue("laptop", owner=user, scopes=["tools:call"])
    assert directory.patches(f"Users/{user.pk}", operation)["active"] is False
    key.refresh_from_db()
    assert key.revoked_at is not None
    assert AuditEvent.objects.get(kind="user.ended").subject_id == str(user.pk)
    again = directory.patches(f"Users/{user.pk}", {"op": "replace", "path": "active", "value": True})
    assert again["active"] is True
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_change_that_says_nothing_of_active_enables_nobody(directory: Directory) -> None:
    made = directory.makes("Users", {**ADA, "active": False})
    less = {name: value for name, value in ADA.items() if name not in ("active", "emails")}
    answer = directory.asks("PUT", f"Users/{made['id']}", {**less, "userName": "ada2"})
    assert (answer.status_code, answer.json()["active"], answer.json()["userName"]) == (200, False, "ada2")
    assert "emails" not in answer.json()


def test_what_entra_id_sends_besides_is_dropped(directory: Directory) -> None:
    made = directory.makes("Users", ADA)
    changed = directory.patches(
        f"Users/{made['id']}",
        {"op": "Add", "path": 'emails[type eq "work"].value', "value": "new@firm.example"},
        {"op": "Replace", "path": "displayName", "value": "Another"},
        {"op": "Replace", "path": "name.familyName", "value": "King"},
        {"op": "Add", "path": 'addresses[type eq "work"].country', "value": "UK"},
        {"op": "Replace", "path": f"{ENTERPRISE}:department", "value": "Looms"},
    )
    assert changed["emails"] == [{"value": "new@firm.example", "type": "work", "primary": True}]
    assert changed["name"] == {"givenName": "Ada", "familyName": "King"}
    assert "displayName" not in changed


def test_a_removed_person_is_gone_for_the_directory_and_stays_on_record(directory: Directory) -> None:
    made = directory.makes("Users", ADA)
    LinkedIdentity.make(User.objects.get(pk=made["id"]), "https://login.example", "1", "Firm")
    assert directory.asks("DELETE", f"Users/{made['id']}").status_code == 204
    user = User.objects.get(pk=made["id"])
    assert (user.username, user.is_active) == (f"ada@firm.example.removed-{user.pk}", False)
    assert not LinkedIdentity.objects.exists()
    for method in ("GET", "DELETE"):
        assert error_of(directory.asks(method, f"Users/{user.pk}"))[0] == 404
    assert directory.found("Users", 'externalId eq "00u1"') == []
    assert directory.makes("Users", ADA)["id"] != made["id"]


def test_superusers_and_services_are_out_of_reach(directory: Directory) -> None:
    root = User.objects.create_superuser("root", "", "a long password")
    services.make("robot", "/mcp", ["tools:call"], [])
    assert directory.found("Users", 'userName eq "root" or userName eq "robot"') == []
    for name in ("root", "ROOT", "robot"):
        assert error_of(directory.asks("POST", "Users", {**ADA, "userName": name})) == (409, "uniqueness")
    off = {"schemas": [PATCH], "Operations": [{"op": "replace", "path": "active", "value": False}]}
    assert error_of(directory.asks("PATCH", f"Users/{root.pk}", off))[0] == 404
    assert User.objects.get(pk=root.pk).is_active


# Groups ----------------------------------------------------------------------------------------------------


def test_a_directory_makes_groups_for_tools_and_fills_them(directory: Directory) -> None:
    ada, bob = (directory.makes("Users", {**ADA, "userName": name, "externalId": name}) for name in ("ada", "bob"))
    made = directory.makes("Groups", {"schemas": [GROUP], "displayName": "Builders", "members": [{"value": ada["id"]}]})
    group = Group.objects.get(name="Builders")
    assert not group.permissions.exists()
    assert [each["value"] for each in made["members"]] == [ada["id"]]
    at = f"Groups/{made['id']}"
    directory.patches(at, {"op": "Add", "path": "members", "value": [{"value": bob["id"]}]})
    assert set(group.user_set.values_list("username", flat=True)) == {"ada", "bob"}
    assert directory.asks("GET", f"Users/{bob['id']}").json()["groups"] == [
        {"value": made["id"], "display": "Builders"}
    ]
    directory.patches(at, {"op": "remove", "path": f'members[value eq "{ada["id"]}"]'})
    assert set(group.user_set.values_list("username", flat=True)) == {"bob"}
    directory.patches(at, {"op": "Remove", "path": "members", "value": [{"value": bob["id"]}]})
    assert not group.user_set.exists()
    assert AuditEvent.objects.filter(kind="user.changed", actor=f"key:{directory.row.pk}").exists()
    assert directory.patches(at, {"op": "replace", "path": "displayName", "value": "Makers"})["displayName"] == "Makers"


def test_a_group_that_is_removed_is_emptied_and_still_reserves_its_tools(directory: Directory) -> None:
    ada = directory.makes("Users", ADA)
    group = {"schemas": [GROUP], "displayName": "Builders", "members": [{"value": ada["id"]}]}
    made = directory.makes("Groups", group)
    assert directory.asks("DELETE", f"Groups/{made['id']}").status_code == 204
    row = Group.objects.get(name="Builders")
    assert not row.user_set.exists()
    assert error_of(directory.asks("GET", f"Groups/{made['id']}"))[0] == 404
    assert directory.makes("Groups", group)["id"] == str(row.pk)


def test_groups_of_the_hub_are_reached_only_by_a_key_that_has_them(directory: Directory) -> None:
    operators = Group.objects.get(name="Operator")
    ada = directory.makes("Users", ADA)
    assert directory.found("Groups", 'displayName eq "Operator"') == []
    assert error_of(directory.asks("GET", f"Groups/{operators.pk}"))[0] == 404
    for name in ("Operator", "operator"):
        answer = directory.asks("POST", "Groups", {"schemas": [GROUP], "displayName": name})
        assert error_of(answer) == (409, "uniqueness")
    trusted = Directory(operators)
    at = f"Groups/{operators.pk}"
    trusted.patches(at, {"op": "add", "path": "members", "value": [{"value": ada["id"]}]})
    assert User.objects.get(pk=ada["id"]).is_staff
    renamed = {"schemas": [PATCH], "Operations": [{"op": "replace", "path": "displayName", "value": "Mine"}]}
    assert error_of(trusted.asks("PATCH", at, renamed)) == (400, "mutability")
    assert error_of(trusted.asks("DELETE", at)) == (400, "mutability")
    trusted.patches(at, {"op": "remove", "path": "members"})
    assert not User.objects.get(pk=ada["id"]).is_staff


def test_members_whom_the_directory_does_not_see_stay_as_they_are(directory: Directory) -> None:
    root = User.objects.create_superuser("root", "", "a long password")
    made = directory.makes("Groups", {"schemas": [GROUP], "displayName": "Builders"})
    root.groups.add(Group.objects.get(pk=made["id"]))
    at = f"Groups/{made['id']}"
    assert "members" not in directory.asks("GET", at).json()
    assert directory.asks("PUT", at, {"schemas": [GROUP], "displayName": "Builders"}).status_code == 200
    assert root.groups.filter(name="Builders").exists()
    for value in (str(root.pk), "999999", "-1", "x", str(2**70)):
        body = {"schemas": [GROUP], "displayName": "Builders", "members": [{"value": value}]}
        assert error_of(directory.asks("PUT", at, body)) == (400, "invalidValue")


# Questions -------------------------------------------------------------------------------------------------


def test_filters_find_whom_they_mean(directory: Directory) -> None:
    ada = directory.makes("Users", ADA)["id"]
    other = {**ADA, "userName": "bob", "externalId": "00u2", "active": False, "name": None, "emails": []}
    bob = directory.makes("Users", other)["id"]
    group = directory.makes("Groups", {"schemas": [GROUP], "displayName": "Builders", "members": [{"value": ada}]})[
        "id"
    ]
    asked = {
        'userName eq "ADA@firm.example"': [ada],
        'externalId eq "00u2"': [bob],
        'externalId eq "00U2"': [],
        f'id eq "{bob}"': [bob],
        f'id ne "{bob}"': [ada],
        "active eq false": [bob],
        'emails[type eq "work"].value eq "ada@firm.example"': [ada],
        'emails[type eq "home" and value co "@"]': [],
        "emails pr": [ada],
        "not (emails pr)": [bob],
        'name.familyName sw "l" and active eq true': [ada],
        'userName co "%" or userName ew "OB"': [bob],
        'meta.created gt "2020-01-01T00:00:00Z"': [ada, bob],
        f'id eq "{2**70}"': [],
    }
    assert {condition: directory.found("Users", condition) for condition in asked} == asked
    of_groups = {
        'displayName eq "builders"': [group],
        f'id eq "{group}" and members eq "{ada}"': [group],
        f'members[value eq "{bob}"]': [],
    }
    assert {condition: directory.found("Groups", condition) for condition in of_groups} == of_groups


def test_pages_and_attributes_are_given_as_asked(directory: Directory) -> None:
    made = [directory.makes("Users", {**ADA, "userName": f"p{number}", "externalId": ""})["id"] for number in range(5)]
    page = directory.asks("GET", "Users", startIndex=2, count=2, attributes="userName").json()
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 2, 2)
    assert [each["userName"] for each in page["Resources"]] == ["p1", "p2"]
    assert set(page["Resources"][0]) == {"schemas", "id", "userName"}
    assert directory.asks("GET", "Users", count=0).json()["Resources"] == []
    assert directory.asks("GET", "Users", count=-3, startIndex=-1).json()["startIndex"] == 1
    assert "emails" not in directory.asks("GET", f"Users/{made[0]}", excludedAttributes="emails").json()
    found = {"schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"], "filter": 'userName eq "p3"'}
    assert directory.asks("POST", "Users/.search", found).json()["Resources"][0]["id"] == made[3]


# What is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "kind"),
    [
        ("userName eq", "invalidFilter"),
        ("title eq %22x%22", "invalidFilter"),
        ("active gt true", "invalidFilter"),
        ("id gt %221%22", "invalidFilter"),
        ("(" * 400 + "a pr" + ")" * 400, "invalidFilter"),
        ("userName eq %22" + "x" * 2000 + "%22", "invalidFilter"),
    ],
)
def test_a_filter_that_cannot_be_answered_is_refused(directory: Directory, condition: str, kind: str) -> None:
    answer = directory.asks("GET", "Users", filter=condition.replace(" ", "%20"))
    assert error_of(answer) == (400, kind)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"userName": ""}, "invalidValue"),
        ({"userName": None}, "invalidValue"),
        ({"userName": "x" * 151}, "invalidValue"),
        ({"userName": "a b<script>"}, "invalidValue"),
        ({"userName": {"a": 1}}, "invalidValue"),
        ({"userName": "a\x00b"}, "invalidValue"),
        ({"emails": [{"value": "nowhere"}]}, "invalidValue"),
        ({"emails": "ada"}, "invalidValue"),
        ({"externalId": "x" * 256}, "invalidValue"),
        ({"name": {"givenName": "A\u202eB"}}, "invalidValue"),
        ({"active": "perhaps"}, "invalidValue"),
    ],
)
def test_a_person_who_cannot_be_is_not_made(directory: Directory, change: dict[str, Any], kind: str) -> None:
    before = User.objects.count()
    assert error_of(directory.asks("POST", "Users", {**ADA, **change})) == (400, kind)
    assert User.objects.count() == before


def test_bodies_that_are_none_or_too_much_are_refused(directory: Directory) -> None:
    made = directory.makes("Groups", {"schemas": [GROUP], "displayName": "Builders"})
    at = f"Groups/{made['id']}"
    assert error_of(directory.asks("POST", "Users", b"{"))[0] == 400
    assert error_of(directory.asks("POST", "Users", []))[0] == 400
    one = {"op": "add", "path": "members", "value": [{"value": "1"}]}
    many = {"schemas": [PATCH], "Operations": [one] * (MOST_OPERATIONS + 1)}
    assert error_of(directory.asks("PATCH", at, many))[0] == 413
    full = [{"value": "1"}] * (MOST_MEMBERS + 1)
    assert error_of(directory.asks("PUT", at, {"schemas": [GROUP], "displayName": "B", "members": full}))[0] == 413
    assert error_of(directory.asks("PATCH", at, {"schemas": [PATCH], "Operations": [{**one, "value": full}]}))[0] == 413
    assert error_of(directory.asks("PATCH", at, {"schemas": [PATCH], "Operations": "x"}))[0] == 400
    assert error_of(directory.asks("PATCH", at, {"schemas": [PATCH], "Operations": -1}))[0] == 400
    assert error_of(directory.asks("PATCH", at, {"schemas": [PATCH], "Operations": [{"op": "nuke"}]}))[0] == 400


def test_only_a_key_with_the_scope_opens_it() -> None:
    other = Directory(scopes=("tools:call", "keys:write", "catalog:write", "audit:read"))
    for method, path in (("GET", "Users"), ("POST", "Users"), ("GET", "Schemas"), ("GET", "ServiceProviderConfig")):
        assert error_of(other.asks(method, path, {}))[0] == 403
    other.client = Client()
    answer = other.asks("GET", "Users")
    assert error_of(answer)[0] == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    person = Client()
    person.force_login(User.objects.create_superuser("root", "", "a long password"))
    other.client = person
    assert error_of(other.asks("GET", "Users"))[0] == 401


# Logging in ------------------------------------------------------------------------------------------------


@pytest.fixture
def provider() -> LoginProvider:
    return LoginProvider.objects.create(
        name="Firm", slug="firm", issuer="https://login.firm.example", client_id="hub", directory_claim="oid"
    )


CLAIMS: dict[str, Any] = {"sub": "pairwise", "oid": "00u1", "preferred_username": "ada"}


def test_a_person_of_the_directory_logs_in_with_the_account_that_it_made(
    directory: Directory, provider: LoginProvider
) -> None:
    made = directory.makes("Users", ADA)
    assert str(people.arrived(provider, CLAIMS, "n1").pk) == made["id"]
    directory.patches(f"Users/{made['id']}", {"op": "replace", "path": "externalId", "value": "another"})
    assert str(people.arrived(provider, CLAIMS, "n2").pk) == made["id"]  # linked by issuer and subject from then on
    directory.patches(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": False})
    with pytest.raises(LoginRefused, match="inactive"):
        people.arrived(provider, CLAIMS, "n3")


def test_the_id_of_a_directory_leads_to_no_account_that_it_did_not_make(
    directory: Directory, provider: LoginProvider
) -> None:
    by_hand = User.objects.create_user("ada@firm.example")
    directory.patches(f"Users/{by_hand.pk}", {"op": "add", "path": "externalId", "value": "00u1"})
    assert ProvisionedPerson.objects.get(user=by_hand).external_id == "00u1"
    with pytest.raises(LoginRefused, match="invited"):
        people.arrived(provider, CLAIMS, "n1")


@pytest.mark.parametrize("case", ["no claim is named", "two have the id", "another subject is linked", "no such claim"])
def test_a_claim_that_does_not_decide_leads_to_nobody(directory: Directory, provider: LoginProvider, case: str) -> None:
    made = directory.makes("Users", ADA)
    claims = dict(CLAIMS)
    if case == "no claim is named":
        provider.directory_claim = ""
    elif case == "two have the id":
        directory.makes("Users", {**ADA, "userName": "bob"})
    elif case == "another subject is linked":
        LinkedIdentity.make(User.objects.get(pk=made["id"]), provider.issuer, "first", "Firm")
    else:
        claims["oid"] = ""
    with pytest.raises(LoginRefused, match="invited"):
        people.arrived(provider, claims, "n1")


def test_the_page_of_a_person_names_the_directory(directory: Directory, log_in: Any) -> None:  # noqa: F811
    made = directory.makes("Users", ADA)
    browser = log_in("superuser")
    assert "The directory, as 00u1" in browser.get(f"/admin/auth/user/{made['id']}/change/").content.decode()
    assert "The directory, as" not in browser.get(f"/admin/auth/user/{browser.user.pk}/change/").content.decode()


# Members of a wrong type -----------------------------------------------------------------------------------

WRONG: list[Any] = [-1, 1.5, True, None, "x", [], [None], [[1]], {}, {"x": {}}]
PATCHING = {"op": "replace", "path": "members", "value": [{"value": "1"}]}


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_no_member_of_a_wrong_type_fails_the_hub(directory: Directory, wrong: Any) -> None:
    person, group = directory.makes("Users", ADA), directory.makes("Groups", {"schemas": [GROUP], "displayName": "B"})
    places = {"Users": {**ADA, "userName": "bob"}, "Groups": {"schemas": [GROUP], "displayName": "C", "members": []}}
    for kind, made in (("Users", person), ("Groups", group)):
        for member in (*places[kind], "id", "meta", "externalId", "active", "name"):
            body = {**places[kind], member: wrong}
            for answer in (directory.asks("POST", kind, body), directory.asks("PUT", f"{kind}/{made['id']}", body)):
                assert answer.status_code < 500, (kind, member)
        bodies: list[Any] = [{"schemas": [PATCH], "Operations": wrong}, {"schemas": wrong, "Operations": [PATCHING]}]
        bodies += [{"schemas": [PATCH], "Operations": [each]} for each in (wrong, {"op": "add", "value": wrong})]
        bodies += [{"schemas": [PATCH], "Operations": [{**PATCHING, member: wrong}]} for member in PATCHING]
        bodies += [{"schemas": [PATCH], "Operations": [{**PATCHING, "value": [{"value": wrong}]}]}, wrong]
        for body in bodies:
            answer = directory.asks("PATCH", f"{kind}/{made['id']}", body)
            assert answer.status_code < 500, (kind, body)
