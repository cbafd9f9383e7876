"""The switch as rows: who may stop writes and allow them again, by which ways, and what is on record."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.test import Client

from mcphub.cli import main
from mcphub.features.compliance import evidence
from mcphub.features.notifications import sources
from mcphub.features.writes import in_force
from mcphub.features.writes.models import WriteStop
from mcphub.features.writes.rules import SUBJECT
from mcphub.process import loading
from sessions_app import bus
from sessions_app.history.models import AuditEvent, WaitingChange
from sessions_app.models import McpWorkspace
from tests.factories import UserFactory
from tests.rest import by_key

pytestmark = pytest.mark.usefixtures("transactional_db")
LIST = "/api/write-stops/"


def operator(name: str) -> Client:
    person = UserFactory(username=name, is_staff=True)
    person.groups.add(Group.objects.get(name="Operator"))
    client = Client()
    client.force_login(person)
    return client


def post(client: Client, path: str, **body: Any) -> Any:
    return client.post(path, body, content_type="application/json")


def stopped() -> dict[int | None, in_force.StopInForce]:
    found: dict[int | None, in_force.StopInForce] = loading.first_configuration().additions[SUBJECT]
    return found


def test_one_operator_stops_and_another_must_confirm_that_writes_are_allowed() -> None:
    olga, oleg = operator("olga"), operator("oleg")
    answer = post(olga, LIST, reason="A leak is looked into.")
    assert answer.status_code == 201
    assert stopped()[None].reason == "A leak is looked into."
    place = f"{LIST}{answer.json()['id']}/"
    held = post(olga, f"{place}allow/", reason="It was none.")
    assert (held.status_code, held.json()["fields_held"]) == (202, ["in_force"])
    assert None in stopped()
    change = WaitingChange.objects.get(state="waiting")
    confirm = f"/admin/sessions_app/waitingchange/{change.pk}/confirm/"
    assert olga.post(confirm, {"confirmed": "1"}).status_code == 403
    oleg.post(confirm, {"confirmed": "1", "reason": "seen"})
    assert stopped() == {}
    row = oleg.get(place).json()
    assert (row["in_force"], row["stopped_by"], row["allowed_by"]) == (False, "olga", "oleg")
    kinds = AuditEvent.objects.order_by("pk").values_list("kind", "reason")
    events = [(kind, reason) for kind, reason in kinds if kind.startswith(("write_stop", "waitingchange"))]
    assert [kind for kind, _ in events] == [
        "write_stop.created",
        "waitingchange.proposed",
        "write_stop.changed",
        "waitingchange.confirmed",
    ]
    assert events[0][1] == "A leak is looked into."
    assert "olga" in events[2][1]
    assert "seen" in events[2][1]


def test_a_key_stops_and_proposes_only() -> None:
    key = by_key("catalog:write")
    place = f"{LIST}{post(key, LIST, reason='Stop.').json()['id']}/"
    assert post(key, f"{place}allow/").status_code == 202
    assert None in stopped()
    assert post(by_key("tools:call"), LIST, reason="Stop.").status_code == 403


def test_a_superuser_needs_nobody_to_allow_writes() -> None:
    client = Client()
    client.force_login(UserFactory(username="root", is_staff=True, is_superuser=True))
    place = f"{LIST}{post(client, LIST, reason='Stop.').json()['id']}/"
    assert post(client, f"{place}allow/").json()["in_force"] is False
    assert post(client, f"{place}allow/").status_code == 409
    assert stopped() == {}


def test_a_second_stop_of_the_same_calls_changes_nothing() -> None:
    olga = operator("olga")
    first = post(olga, LIST, reason="First.").json()
    again = post(olga, LIST, reason="Second.")
    assert (again.status_code, again.json()) == (200, first)
    with pytest.raises(IntegrityError), transaction.atomic():
        WriteStop(reason="Third.").save()
    red = McpWorkspace.objects.create(slug="red")
    assert post(olga, LIST, reason="Reds.", workspace="red").status_code == 201
    assert stopped().keys() == {None, red.pk}


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 400), ({"reason": " "}, 400), ({"reason": "x", "a": 1}, 400), ({"reason": "x", "workspace": "none"}, 409)],
)
def test_what_is_no_stop_is_refused(body: dict[str, Any], status: int) -> None:
    assert post(operator("olga"), LIST, **body).status_code == status
    assert stopped() == {}


def test_a_stop_that_is_over_stays_so() -> None:
    row, _ = WriteStop.objects.stop(None, "Stop.")
    assert row.allow("over")
    row.in_force = True
    with pytest.raises(ValidationError):
        row.full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save()
    with pytest.raises(ValidationError):
        row.allow("again")


def test_the_command_stops_shows_and_allows(capsys: pytest.CaptureFixture[str]) -> None:
    McpWorkspace.objects.create(slug="red")
    assert main(["writes", "show"]) == 0
    assert capsys.readouterr().out == "Writes are allowed.\n"
    assert main(["writes", "stop", "--workspace", "red", "--reason", "Reds."]) == 0
    assert main(["writes", "stop", "--reason", "All."]) == 0
    capsys.readouterr()
    assert main(["writes", "show", "--json"]) == 0
    assert [each["workspace"] for each in json.loads(capsys.readouterr().out)] == ["red", None]
    assert main(["writes", "stop", "--reason", "More."]) == 0
    assert capsys.readouterr().out.startswith("They were stopped before; nothing changed.\n")
    assert main(["writes", "allow", "--workspace", "red"]) == 0
    assert "still stopped for everybody" in capsys.readouterr().out
    assert main(["writes", "allow", "--reason", "Over."]) == 0
    assert stopped() == {}
    assert main(["writes", "allow"]) == 1
    assert "writes are not stopped for everybody" in capsys.readouterr().err
    assert main(["writes", "stop"]) == 2
    assert main(["writes", "stop", "--workspace", "rad", "--reason", "x"]) == 1
    assert "'rad'" in capsys.readouterr().err


def test_processes_are_told_and_read_it_again() -> None:
    assert SUBJECT in bus.followed()
    before = loading.first_configuration()
    WriteStop.objects.stop(None, "Stop.")
    from sessions_app.models import BusEvent

    assert BusEvent.objects.filter(subject=SUBJECT).exists()
    assert loading.changes(before, {bus.ERRORS_CHANGED}).get("additions") is None
    assert loading.changes(before, {SUBJECT})["additions"][SUBJECT].keys() == {None}


def test_a_stop_is_an_alarm_a_hint_of_doctor_and_a_decision_for_auditors() -> None:
    row, _ = WriteStop.objects.stop(None, "A leak.")
    facts = sources.states()["writes.stopped", str(row.pk)]
    assert facts["reason"] == "A leak."
    (finding,) = in_force.check()
    assert finding.what.startswith("Writes are stopped for everybody.")
    assert "writes_stopped" in evidence._DECIDED
