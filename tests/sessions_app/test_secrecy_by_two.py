"""What lowers the secrecy of others' data: two people do it, or a superuser."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission
from django.test import Client

from invocations.models import McpRedactionRule
from mcphub.features.chat.models import ChatModel, ChatProvider
from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.history import deciding
from sessions_app.history.deciding import ConfirmationRefused
from sessions_app.models import McpWorkspace, WaitingChange
from tests.factories import HttpServiceFactory, McpConnectionFactory, McpToolDefinitionFactory, UserFactory
from tests.rest import by_person, error_of

pytestmark = pytest.mark.django_db

RULES = "/api/redaction-rules/"
OF_ALL = {"kind": "path", "place": "$..token", "part": "both", "tool_name": ""}
OF_ONE = {"kind": "path", "place": "$..pin", "part": "arguments", "tool_name": "tickets_*"}


class Person:
    """A person of some roles, with further permissions, and a login."""

    def __init__(self, name: str, *roles: str, also: tuple[str, ...] = ()) -> None:
        self.user: Any = UserFactory(username=name, is_staff=True)
        self.user.groups.set(Group.objects.filter(name__in=roles))
        for each in also:
            app, codename = each.split(".")
            self.user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
        self.client = Client()
        self.client.force_login(self.user)

    def send(self, method: str, path: str, /, **body: Any) -> Any:
        return getattr(self.client, method)(path, body, content_type="application/json")

    def confirm(self, number: int) -> None:
        deciding.confirm(number, self.user, "seen")


def held(answer: Any, *fields: str) -> int:
    assert answer.status_code == 202, answer.content
    assert sorted(answer.json()["fields_held"]) == sorted(fields)
    return int(answer.json()["waiting_change"])


# Marks of schemas ----------------------------------------------------------------------------------------

_PIN = {"type": "string", "x-secret": True}
_PLAIN = {"type": "string"}


def _of(pin: object, **more: object) -> dict[str, object]:
    return {"type": "object", "properties": {"pin": pin}, **more}


MARKED: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "x-secret": (_of(_PIN), _of(_PLAIN)),
    "x-secret off": (_of(_PIN), _of({**_PIN, "x-secret": False})),
    "writeOnly": (_of({"type": "string", "writeOnly": True}), _of(_PLAIN)),
    "format": (_of({"type": "string", "format": "password"}), _of({"type": "string", "format": "email"})),
    "the property": (_of(_PIN), {"type": "object"}),
    "another property": (_of(_PIN), {"type": "object", "properties": {"pin": _PLAIN, "nip": _PIN}}),
    "in a list": (_of({"items": {"anyOf": [_PIN]}}), _of({"items": {"anyOf": [_PLAIN]}})),
    "by reference": (
        _of({"$ref": "#/$defs/pin"}, **{"$defs": {"pin": _PIN}}),
        _of({"$ref": "#/$defs/pin"}, **{"$defs": {"pin": _PLAIN}}),
    ),
    "in itself": (
        _of(_PIN, **{"additionalProperties": {"$ref": "#"}}),
        _of(_PLAIN, **{"additionalProperties": {"$ref": "#"}}),
    ),
}


@pytest.mark.parametrize("part", ["input_schema", "output_schema"])
@pytest.mark.parametrize("what", MARKED)
def test_a_secret_mark_of_a_schema_is_taken_off_by_two(what: str, part: str) -> None:
    was, wanted = MARKED[what]
    tool = McpToolDefinitionFactory(name="enter", **{part: was})
    editor = Person("editor", "Operator")
    number = held(editor.send("patch", "/api/tool-definitions/enter/", **{part: wanted}), part)
    tool.refresh_from_db()
    assert getattr(tool, part) == was
    with pytest.raises(ConfirmationRefused):
        editor.confirm(number)
    Person("second", "Operator").confirm(number)
    tool.refresh_from_db()
    assert getattr(tool, part) == wanted


@pytest.mark.parametrize(
    "wanted", [_of({**_PIN, "minLength": 4}), _of(_PIN, required=["pin"]), {**_of(_PIN), "x-secret": True}]
)
def test_a_schema_that_marks_as_much_waits_for_nobody(wanted: dict[str, object]) -> None:
    McpToolDefinitionFactory(name="enter", input_schema=_of(_PIN))
    answer = Person("editor", "Operator").send("patch", "/api/tool-definitions/enter/", input_schema=wanted)
    assert answer.status_code == 200, answer.content


def test_a_tool_leaves_the_redaction_rule_that_names_it_by_two() -> None:
    McpToolDefinitionFactory(name="tickets_add")
    McpRedactionRule.objects.create(**OF_ONE)
    editor = Person("editor", "Operator")
    held(editor.send("patch", "/api/tool-definitions/tickets_add/", name="add"), "name")
    assert editor.send("patch", "/api/tool-definitions/tickets_add/", name="tickets_new").status_code == 200


# Redaction -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        (OF_ALL, {"enabled": False}),
        (OF_ALL, {"part": "result"}),
        (OF_ALL, {"part": "arguments"}),
        (OF_ALL, {"tool_name": "tickets_*"}),
        (OF_ALL, {"place": "$.nothing"}),
        (OF_ALL, {"kind": "header", "place": "X-Nothing"}),
        (OF_ONE, {"enabled": False}),
        (OF_ONE, {"part": "result"}),
        (OF_ONE, {"tool_name": "other"}),
    ],
)
def test_an_auditor_alone_neither_narrows_a_rule_nor_switches_it_off(
    rule: dict[str, Any], change: dict[str, Any]
) -> None:
    ada = Person("ada", "Auditor")
    bob = Person("bob", "Auditor", also=(deciding.PERMISSION,))
    row = McpRedactionRule.objects.create(**rule)
    before = McpRedactionRule.objects.filter(pk=row.pk).values().get()
    number = held(ada.send("patch", f"{RULES}{row.pk}/", **change), *change)
    assert McpRedactionRule.objects.filter(pk=row.pk).values().get() == before
    with pytest.raises(ConfirmationRefused):
        ada.confirm(number)
    bob.confirm(number)
    assert McpRedactionRule.objects.filter(pk=row.pk).values().get() == {**before, **change}


@pytest.mark.parametrize("change", [{"part": "both"}, {"tool_name": ""}, {"note": "why"}, {"enabled": True}])
def test_an_auditor_alone_widens_a_rule(change: dict[str, Any]) -> None:
    row = McpRedactionRule.objects.create(**OF_ONE)
    assert Person("ada", "Auditor").send("patch", f"{RULES}{row.pk}/", **change).status_code == 200


def test_a_rule_that_is_off_is_anybodys_and_one_in_force_is_not_removed_alone() -> None:
    ada = Person("ada", "Auditor")
    row = McpRedactionRule.objects.create(**OF_ALL)
    error_of(ada.client.delete(f"{RULES}{row.pk}/"), 409, "conflict")
    page = f"/admin/invocations/mcpredactionrule/{row.pk}/delete/"
    assert ada.client.post(page, {"post": "yes"}).status_code == 403
    assert McpRedactionRule.objects.filter(pk=row.pk).exists()
    McpRedactionRule.objects.filter(pk=row.pk).update(enabled=False)
    assert ada.send("patch", f"{RULES}{row.pk}/", place="$.other").status_code == 200
    assert ada.client.delete(f"{RULES}{row.pk}/").status_code == 204


def test_a_superuser_switches_a_rule_off() -> None:
    row = McpRedactionRule.objects.create(**OF_ALL)
    root = by_person(is_superuser=True)
    answer = root.patch(f"{RULES}{row.pk}/", {"enabled": False}, content_type="application/json")
    assert answer.status_code == 200, answer.content


# Workspaces ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["in", "out", "across"])
@pytest.mark.parametrize("what", ["tool", "connection"])
def test_nobody_moves_a_tool_or_connection_to_other_readers_alone(what: str, way: str) -> None:
    red, blue = (McpWorkspace.objects.create(slug=slug) for slug in ("red", "blue"))
    before, after = {"in": (None, blue), "out": (red, None), "across": (red, blue)}[way]
    ada, bob = (Person(name, "Operator", also=("sessions_app.change_mcpworkspace",)) for name in ("ada", "bob"))
    if what == "tool":
        row = McpToolDefinitionFactory(name="wire", workspace=before)
        path = "/api/tool-definitions/wire/"
    else:
        row = McpConnectionFactory(slug="bank", workspace=before)
        path = "/api/connections/bank/"
    number = held(ada.send("patch", path, workspace=after.slug if after else None), "workspace_id")
    row.refresh_from_db()
    assert row.workspace == before
    with pytest.raises(ConfirmationRefused):
        ada.confirm(number)
    bob.confirm(number)
    row.refresh_from_db()
    assert row.workspace == after


def test_who_may_not_change_workspaces_does_not_propose_a_move() -> None:
    McpWorkspace.objects.create(slug="blue")
    McpToolDefinitionFactory(name="wire")
    McpConnectionFactory(slug="bank")
    ada = Person("ada", "Operator")
    for path in ("/api/tool-definitions/wire/", "/api/connections/bank/"):
        error_of(ada.send("patch", path, workspace="blue"), 403, "forbidden")
    assert not WaitingChange.objects.exists()


def test_a_waiting_move_names_the_workspaces() -> None:
    red, blue = (McpWorkspace.objects.create(slug=slug) for slug in ("red", "blue"))
    McpToolDefinitionFactory(name="wire", workspace=red)
    ada = Person("ada", "Operator", also=("sessions_app.change_mcpworkspace",))
    number = held(ada.send("patch", "/api/tool-definitions/wire/", workspace=blue.slug), "workspace_id")
    page = ada.client.get(f"/admin/sessions_app/waitingchange/{number}/change/").content.decode()
    assert "red → blue" in page


# Providers and guardrails --------------------------------------------------------------------------------


def test_an_operator_s_own_provider_gets_no_question_before_a_second_person_enables_it() -> None:
    ada, bob = Person("ada", "Operator"), Person("bob", "Operator")
    new = {"slug": "mine", "kind": "compatible", "base_url": "https://mine.example/v1", "key": "x"}
    number = held(ada.send("post", "/api/providers/", **new), "enabled")
    model = {"provider": "mine", "name": "m", "aliases": ["default"], "is_default": True}
    assert ada.send("post", "/api/models/", **model).status_code == 201
    assert ChatModel.objects.filter(is_default=True, provider__enabled=True).count() == 0
    with pytest.raises(ConfirmationRefused):
        ada.confirm(number)
    bob.confirm(number)
    assert ChatProvider.objects.get(slug="mine").enabled


def test_a_provider_at_another_address_gets_no_question_before_a_second_person_enables_it() -> None:
    ChatProvider.objects.create(slug="ours", base_url="https://ours.example/v1")
    change = {"base_url": "https://mine.example/v1", "key": "x"}
    held(Person("ada", "Operator").send("patch", "/api/providers/ours/", **change), "enabled")
    row = ChatProvider.objects.get(slug="ours")
    assert (row.base_url, row.enabled) == ("https://mine.example/v1", False)


def test_an_operator_s_own_service_reads_no_calls_by_a_guardrail_alone() -> None:
    HttpServiceFactory(slug="mine")
    ada, bob = Person("ada", "Operator"), Person("bob", "Operator")
    new = {"name": "reads", "applies_to": "tool", "target": "wire", "checked_by": "service", "service": "mine"}
    new |= {"path": "/look", "on_failure": "open", "watching": True}
    number = held(ada.send("post", "/api/guardrails/", **new), "enabled")
    assert not McpGuardrail.objects.get(name="reads").enabled
    bob.confirm(number)
    assert McpGuardrail.objects.get(name="reads").enabled
    held(ada.send("patch", "/api/guardrails/reads/", applies_to="all", target=""), "applies_to", "target")
    assert McpGuardrail.objects.get(name="reads").target == "wire"
    assert WaitingChange.objects.filter(state="waiting").count() == 1
