"""The console's page of evidence: who opens it, what it previews, and the archive that it sends."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from invocations.chain import service
from invocations.chain.verifier import read_keys
from mcphub.features.compliance.evidence import check
from sessions_app.models import ApiKey, AuditEvent, McpWorkspace
from tests.factories import McpToolInvocationFactory, UserFactory

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture(autouse=True)
def _key(settings: Any, tmp_path: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"
    service.keys().signer(may_make=True)


@pytest.fixture
def two(transactional_db: None) -> Iterator[None]:
    """Two workspaces with an auditor's group, a key and a call each."""
    for slug in ("ours", "theirs"):
        row = McpWorkspace.objects.create(slug=slug)
        row.auditors.add(Group.objects.create(name=f"{slug} auditors"))
        ApiKey.issue(f"{slug} key", workspace=row)
        moment = timezone.now()
        McpToolInvocationFactory(tool_name=f"{slug}.pay", workspace=slug, received_at=moment, started_at=moment)
    yield
    for row in McpWorkspace.objects.all():
        row.auditors.clear()
    Group.objects.filter(name__endswith=" auditors").delete()


PAGE = "/admin/evidence/"
PERIOD = {"since": "2026-01-01", "until": "2099-01-01", "language": "en"}


def login(group: str, **fields: Any) -> Client:
    person = UserFactory(**fields)
    person.groups.add(Group.objects.get(name=group))
    client = Client()
    client.force_login(person)
    return client


def received(answer: Any) -> bytes:
    async def read() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(read)()


def test_an_auditor_previews_a_period_and_downloads_what_the_command_checks(tmp_path: Path) -> None:
    ApiKey.issue("robot")
    McpToolInvocationFactory(tool_name="pay", received_at=timezone.now(), started_at=timezone.now())
    auditor = login("Auditor", is_staff=True)
    assert f'href="{PAGE}"' in auditor.get(PAGE).content.decode()
    preview = auditor.post(PAGE, PERIOD).content.decode()
    assert "access-reviews.jsonl" in preview
    assert "counted in the download" in preview
    answer = auditor.post(PAGE, {**PERIOD, "download": "1"})
    assert answer["Content-Disposition"] == 'attachment; filename="evidence-2026-01-01-2099-01-01.zip"'
    file = tmp_path / "e.zip"
    file.write_bytes(received(answer))
    manifest = check(file, read_keys(service.keys().public.read_text()))
    assert (manifest["from"], manifest["workspace"]) == ("2026-01-01T00:00:00+00:00", None)
    assert AuditEvent.objects.filter(kind="audit.evidence", after__contains="2026-01-01").count() == 1


@pytest.mark.usefixtures("two")
def test_a_workspaces_auditor_gets_the_archive_of_that_workspace_alone() -> None:
    answer = login("ours auditors").post(PAGE, {**PERIOD, "workspace": "theirs", "download": "1"})
    with zipfile.ZipFile(io.BytesIO(received(answer))) as archive:
        text = "".join(archive.read(name).decode() for name in archive.namelist())
        assert json.loads(archive.read("manifest.json"))["workspace"] == "ours"
    assert "ours key" in text
    assert "theirs" not in text


def test_others_are_refused_and_a_wrong_period_is_named() -> None:
    for group in ("Viewer", "Operator"):
        client = login(group, is_staff=True)
        assert client.get(PAGE).status_code == 403
        assert PAGE not in client.get("/admin/sessions_app/waitingchange/").content.decode()
    answer = login("Auditor", is_staff=True).post(PAGE, {**PERIOD, "until": "2025-01-01", "download": "1"})
    assert "Enter a day after the first one." in answer.content.decode()
