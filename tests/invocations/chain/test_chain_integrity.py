"""The admin's page of integrity verifies the newest blocks, compares published checkpoints, and hands out the last."""

from __future__ import annotations

import html
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.urls import reverse

from invocations.admin import integrity as admin_integrity
from invocations.chain import service, verifier, watching
from invocations.chain.models import AuditVerification
from invocations.chain.verifier import Checkpoint
from sessions_app.history.models import AuditEvent
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
    assert "Nothing has been sealed yet" in auditor.post(page).content.decode()
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
    assert "Changed since it was sealed" in auditor.post(page).content.decode()


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
    assert "the log was truncated" in auditor.get(page).context["published"]["wrong"]


def test_only_who_may_see_blocks_sees_the_page(transactional_db, page) -> None:
    assert by_person("invocations.view_mcptoolinvocation", is_staff=True).get(page).status_code == 403


def test_what_the_page_finds_is_an_alarm_everywhere_and_every_verification_is_kept(
    database, log, sealer, auditor, page
) -> None:
    fill(database, 2)
    sealer.seal()
    auditor.post(page)
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("UPDATE invocations_mcptoolinvocation SET tool_name = 'other'")
    shown = auditor.post(page)
    problem = watching.verdict(log).problem
    assert "was changed after it was sealed" in problem
    assert problem in html.unescape(shown.content.decode())
    kept = AuditVerification.objects.order_by("id")
    assert [(each.way, each.blocks, bool(each.problem)) for each in kept] == [("page", 1, False), ("page", 1, True)]


def test_the_button_gives_an_export_that_verifies_to_who_may_read_bodies(
    database, sealer, keys, auditor, page, tmp_path
) -> None:
    fill(database, 2)
    sealer.seal()
    address = reverse("admin:audit_export")
    assert "Download a provable export" not in auditor.get(page).content.decode()
    assert auditor.post(address).status_code == 403
    reader = by_person("invocations.view_auditblock", "invocations.read_bodies", is_staff=True)
    assert "Download a provable export" in reader.get(page).content.decode()
    assert reader.get(address).status_code == 302
    answer = reader.post(address)
    file = tmp_path / "audit.jsonl"

    async def whole() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    file.write_bytes(async_to_sync(whole)())
    assert verifier.main([str(file), "--key", str(keys.public)]) == 0
    assert AuditEvent.objects.filter(kind="audit.exported", subject_label=address).count() == 1
