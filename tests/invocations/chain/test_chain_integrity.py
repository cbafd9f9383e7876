"""The admin's page of integrity verifies the newest blocks, compares published checkpoints, and hands out the last."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.urls import reverse

from invocations.admin import integrity as admin_integrity
from invocations.chain import service
from invocations.chain.verifier import Checkpoint
from tests.committed import without_rules
from tests.invocations.chain.rows import fill
from tests.rest import by_person

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def auditor(transactional_db: None) -> Any:
    return by_person("invocations.view_auditblock", is_staff=True)


@pytest.fixture
def page() -> str:
    return reverse("admin:audit_integrity")


def test_the_newest_blocks_are_verified_and_what_was_changed_is_named(database, sealer, auditor, page) -> None:
    assert "Nothing is sealed yet" in auditor.post(page).content.decode()
    calls = []
    for _ in range(3):
        calls += fill(database, 2)
        sealer.seal()
    fill(database, 1)
    shown = auditor.get(page)
    assert (shown.context["size"], shown.context["waiting"], shown.context["found"]) == (3, "1", None)
    found = auditor.post(page).context["found"]
    assert (found.newest, found.oldest, found.wrong) == (2, 0, "")
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(
            "UPDATE invocations_mcptoolinvocation SET principal = 'key:2' WHERE invocation_id = %s", [calls[3]]
        )
    found = auditor.post(page).context["found"]
    assert (found.newest, found.oldest) == (2, 1)
    assert found.wrong
    assert "Not as it was sealed" in auditor.post(page).content.decode()


def test_a_page_ends_in_its_time_and_says_what_it_did_not_reach(database, sealer, auditor) -> None:
    for _ in range(3):
        fill(database, 1)
        sealer.seal()
    found = admin_integrity.verify_newest(seconds=0)
    assert (found.newest, found.oldest, found.wrong) == (2, 2, "")


def test_published_checkpoints_must_agree_and_the_last_one_is_handed_out(database, sealer, keys, auditor, page) -> None:
    publisher = service.publisher()
    for _ in range(2):
        fill(database, 1)
        sealer.seal()
        publisher.publish(sealer)
    assert auditor.get(page).context["published"] == {"count": 2, "wrong": ""}
    note = auditor.get(reverse("admin:audit_checkpoint", args=[2]))
    assert "attachment" in note.headers["Content-Disposition"]
    assert Checkpoint.parse(note.content.decode()).size == 2
    assert auditor.get(reverse("admin:audit_checkpoint", args=[9])).status_code == 404
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("DELETE FROM invocations_auditblock WHERE number = 1")
    assert "the log was cut" in auditor.get(page).context["published"]["wrong"]


def test_only_who_may_see_blocks_sees_the_page(transactional_db, page) -> None:
    assert by_person("invocations.view_mcptoolinvocation", is_staff=True).get(page).status_code == 403
