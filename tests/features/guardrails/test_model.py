"""Guardrails as rows: what is refused, versions, the second person, bundles, REST, files, counting the record."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from mcphub.cli import main
from mcphub.features.guardrails import recorded
from mcphub.features.guardrails.functions import GuardrailDefinitionError, guardrail
from mcphub.features.guardrails.guardrail import Guardrail, GuardrailFinding, Guardrails
from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.history.models import WaitingChange
from sessions_app.models import AuditEvent
from tests.factories import McpToolInvocationFactory
from tests.rest import by_key, by_person, error_of
from tools_catalog.bundles import bundle
from tools_catalog.models import HttpService

pytestmark = pytest.mark.django_db
LIST = "/api/guardrails/"
PERMISSIONS = [f"tools_catalog.{what}_mcpguardrail" for what in ("view", "add", "change", "delete")]


def a_guardrail(**fields: Any) -> McpGuardrail:
    row: McpGuardrail = McpGuardrail.objects.create(
        **{"name": "cards", "detectors": "card", "action": "mask", "direction": "result", **fields}
    )
    return row


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"detectors": ""}, "detectors"),
        ({"detectors": "cards"}, "detectors"),
        ({"detectors": "size"}, "max_bytes"),
        ({"detectors": "size", "max_bytes": 5, "action": "mask"}, "action"),
        ({"applies_to": "tool"}, "target"),
        ({"applies_to": "toolset", "target": "nowhere"}, "target"),
        ({"checked_by": "function", "function": "os:system", "on_failure": "open"}, "function"),
        ({"checked_by": "service", "service": "nowhere", "on_failure": "open"}, "service"),
        ({"checked_by": "function", "function": "x:y"}, "on_failure"),
        ({"seconds": 600}, "seconds"),
        ({"name": "Not so"}, "name"),
    ],
)
def test_a_guardrail_that_cannot_be_is_refused_at_its_field(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        McpGuardrail(**{"name": "rail", "detectors": "card", **fields}).full_clean()
    assert field in refused.value.message_dict


def test_the_database_takes_no_service_that_does_not_say_how_it_fails() -> None:
    with pytest.raises(IntegrityError):
        McpGuardrail.objects.create(name="x", checked_by="service", service="y")


def test_each_edit_is_a_version_and_an_event() -> None:
    row = a_guardrail()
    row.words = "Stop."
    row.save()
    assert row.version == 2
    event = AuditEvent.objects.filter(kind="guardrail.changed").latest("pk")
    assert (event.before["words"], event.after["words"]) == ("", "Stop.")


def test_what_can_look_at_nothing_any_more_is_broken_and_says_why() -> None:
    a_guardrail()
    McpGuardrail.objects.update(detectors="gone")
    assert "gone: there is no such detector" in McpGuardrail.objects.get().compiled({}).broken
    service = a_guardrail(name="served", checked_by="service", service="away", on_failure="open")
    assert service.compiled({}).broken == "there is no service away that is switched on"


def test_reads_are_looked_at_by_those_for_all_tools_and_for_their_connection() -> None:
    made = Guardrails(
        [
            Guardrail(name="all", version=1, direction="result"),
            Guardrail(name="crm", version=1, applies_to="connection", target="crm*"),
            Guardrail(name="tool", version=1, applies_to="tool", target="*"),
        ]
    )
    of_crm, of_hub = made.of_read("crm-1"), made.of_read(None)
    assert of_crm is not None
    assert of_hub is not None
    assert [each.name for each in of_crm.result] == ["all", "crm"]
    assert [each.name for each in of_hub.result] == ["all"]
    assert Guardrails().of_read("crm") is None


@pytest.mark.parametrize(
    "kinds", [{"A": 1}, {"a": 0}, {"a": True}, {"a b": 1}, {"x" * 41: 1}, {str(n): 1 for n in range(21)}]
)
def test_a_finding_that_names_nonsense_is_none(kinds: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        GuardrailFinding(kinds).check()


def test_a_function_that_cannot_be_a_guardrail_is_refused_when_it_is_written() -> None:
    async def waits(value: Any, call: Any) -> None: ...

    def takes_one(value: Any) -> None: ...

    with pytest.raises(GuardrailDefinitionError, match="not `async def`"):
        guardrail(waits)
    with pytest.raises(GuardrailDefinitionError, match="two parameters"):
        guardrail(takes_one)


# The second person ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "is_held"),
    [
        ({"enabled": False}, True),
        ({"watching": True}, True),
        ({"detectors": "email"}, True),
        ({"action": "inspect"}, True),
        ({"direction": "arguments"}, True),
        ({"applies_to": "tool", "target": "pay"}, True),
        ({"detectors": "card email"}, False),
        ({"action": "refuse"}, False),
        ({"direction": "both"}, False),
        ({"words": "Stop."}, False),
        ({"position": 3}, False),
    ],
)
def test_a_guardrail_in_force_is_loosened_by_two_and_tightened_by_one(change: dict[str, Any], is_held: bool) -> None:
    a_guardrail()
    answer = by_person(*PERMISSIONS).patch(f"{LIST}cards/", change, content_type="application/json")
    assert answer.status_code == (202 if is_held else 200), answer.json()
    assert WaitingChange.objects.count() == int(is_held)


def test_one_that_does_nothing_is_edited_and_removed_by_one_and_one_in_force_is_not_removed() -> None:
    a_guardrail(watching=True)
    person = by_person(*PERMISSIONS)
    assert person.patch(f"{LIST}cards/", {"detectors": "iban"}, content_type="application/json").status_code == 200
    McpGuardrail.objects.update(watching=False)
    assert person.delete(f"{LIST}cards/").status_code == 409
    McpGuardrail.objects.update(enabled=False)
    assert person.delete(f"{LIST}cards/").status_code == 204


# REST, bundles, files ------------------------------------------------------------------------------


def test_rest_refuses_a_detector_at_its_field_and_lists_by_action() -> None:
    key = by_key("catalog:write")
    answer = key.post(LIST, {"name": "x", "detectors": "cards"}, content_type="application/json")
    assert "detectors" in str(error_of(answer, 409, "conflict"))
    a_guardrail()
    found = key.get(f"{LIST}?action=mask").json()
    assert [each["name"] for each in found["results"]] == ["cards"]


def test_detectors_are_tried_over_rest_and_nothing_is_kept() -> None:
    person = by_person("tools_catalog.view_mcpguardrail")
    asked = {"value": {"to": "a@example.org"}, "detectors": "email"}
    answer = person.post(f"{LIST}try/", asked, content_type="application/json").json()
    assert (answer["found"], answer["masked"], answer["places"]) == ({"email": 1}, {"to": "[masked:email]"}, ["$.to"])
    wrong = person.post(f"{LIST}try/", {"value": "x", "detectors": "mails"}, content_type="application/json")
    assert wrong.status_code == 400
    nothing = person.post(f"{LIST}try/", {"value": None}, content_type="application/json").json()
    assert (nothing["found"], nothing["masked"]) == ({}, None)
    assert not McpGuardrail.objects.exists()


def test_guardrails_round_trip_in_bundles() -> None:
    HttpService.objects.create(slug="looker", url="https://looker.example.org")
    a_guardrail(max_bytes=5, detectors="card bytes", words="Stop.", position=3)
    a_guardrail(name="served", detectors="", checked_by="service", service="looker", path="/look", on_failure="closed")
    dumped = {"format": bundle.FORMAT, "guardrails": bundle.dump()["guardrails"]}
    McpGuardrail.objects.all().delete()
    assert (
        bundle.load(dumped, reason="test").created == ["cards", "served"]
        or not bundle.load(dumped, reason="test").created
    )
    assert sorted(bundle.load(dumped, reason="test").unchanged) == ["cards", "served"]
    assert bundle.dump()["guardrails"] == dumped["guardrails"]


def test_a_faulty_guardrail_of_a_bundle_is_refused_with_its_name_and_nothing_is_loaded() -> None:
    entries = [{"name": "good", "detectors": "card"}, {"name": "bad", "detectors": "cards"}]
    report = bundle.load({"format": bundle.FORMAT, "guardrails": entries}, reason="test")
    assert [name for name, _ in report.refused] == ["bad"]
    assert not McpGuardrail.objects.exists()


def test_a_file_is_checked_without_a_database(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "bundle.json"
    entries = [
        {"name": "good", "detectors": "card"},
        {"name": "served", "checked_by": "service", "service": "x"},
        {"name": "odd", "detectors": "card", "mood": "kind"},
    ]
    file.write_text(json.dumps({"guardrails": entries}))
    assert main(["guardrail", "check", str(file), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert [problem.partition(":")[0] for problem in told["problems"]] == ["served", "odd"]
    file.write_text(json.dumps({"guardrails": entries[:1]}))
    assert main(["guardrail", "check", str(file)]) == 0


def test_detectors_are_tried_on_the_command_line(tmp_path: Any, capsys: Any) -> None:
    file = tmp_path / "mail.txt"
    file.write_text("write to a@example.org")
    assert main(["guardrail", "try", str(file), "--masked"]) == 1
    assert capsys.readouterr().out == "email: 1\nwrite to [masked:email]\n"
    file.write_text("nothing")
    assert main(["guardrail", "try", str(file), "--detectors", "email"]) == 0
    assert main(["guardrail", "try", str(file), "--detectors", "mails"]) == 2
    assert main(["guardrail", "detectors"]) == 0


# On the record -------------------------------------------------------------------------------------


def test_in_how_many_calls_each_acted_is_counted_from_the_record() -> None:
    for said in ("cards@1 arguments mask: card 1; cards@1 result mask: card 2; x@1 result would refuse: iban 1", None):
        McpToolInvocationFactory(guardrails=said)
    McpToolInvocationFactory(guardrails="x@2 arguments failed open: it raised ValueError")
    assert recorded.acted() == {"cards": 1, "x": 2}


def test_modules_of_the_first_release_are_found() -> None:
    assert import_module("tools_catalog.guardrails.functions").guardrail is guardrail
    assert import_module("tools_catalog.guardrails.guardrail").GuardrailFinding is GuardrailFinding
