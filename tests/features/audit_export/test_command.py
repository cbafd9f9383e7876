"""`mcphub audit ship` as an operator types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcphub.features.audit_export.models import ShippingTarget
from sessions_app.history.models import AuditEvent
from tests import template
from tests.in_process import inside, run

pytestmark = pytest.mark.program
S3 = ["audit", "ship", "add", "store", "s3", "https://s3.example/logs", "--access-id", "AK"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipping")
    template.copy_to(folder / "hub.sqlite3")
    return folder


def test_a_destination_is_added_paused_and_removed(home: Path) -> None:
    added = run(home, "audit", "ship", "add", "siem", "folder", "siem", "--begins", "now", "--reason", "asked for")
    assert (added.returncode, added.stderr) == (0, "")
    assert "`mcphub audit ship test siem` tries it" in added.stdout
    shown = json.loads(run(home, "audit", "ship", "show", "siem", "--json").stdout)
    assert (shown["kind"], shown["enabled"], shown["with_bodies"], shown["lag_rows"]) == ("folder", True, False, 0)
    assert "The trial arrived" in run(home, "audit", "ship", "test", "siem").stdout
    assert run(home, "audit", "ship", "disable", "siem").stdout == "siem is disabled.\n"
    assert run(home, "audit", "ship", "list").stdout == ""
    assert run(home, "audit", "ship", "disable", "siem").stdout == "siem was disabled before.\n"
    assert json.loads(run(home, "audit", "ship", "enable", "siem", "--json").stdout)[0]["enabled"] is True
    assert run(home, "audit", "ship", "remove", "siem").stdout == "siem is removed.\n"
    with inside(home):
        assert AuditEvent.objects.filter(kind="shippingtarget.created", via="cli", reason="asked for").exists()
        assert AuditEvent.objects.filter(kind="shippingtarget.deleted", via="cli").exists()


def test_a_secret_comes_by_standard_input_and_is_never_printed(home: Path) -> None:
    added = run(home, *S3, "--secret-stdin", "--json", stdin="very-secret-key\n")
    assert added.returncode == 0, added.stderr
    assert "very-secret" not in added.stdout + run(home, "audit", "ship", "show", "store").stdout
    with inside(home):
        row = ShippingTarget.objects.get(name="store")
        assert row.secret() == "very-secret-key"
        row.delete()


@pytest.mark.parametrize(
    ("words", "status", "answer"),
    [
        (S3, 2, "--secret-file: S3 needs the secret access key"),
        (["audit", "ship", "add", "hook", "webhook", "http://siem.example/"], 2, "ADDRESS: Enter an https address"),
        (["audit", "ship", "add", "hook", "webhook", "https://10.0.0.1/"], 2, "ADDRESS: "),
        (["audit", "ship", "add", "x", "folder", "x", "--format", "cef"], 2, "--format: CEF and LEEF are available"),
        (["audit", "ship", "remove", "other"], 1, "there is no export destination 'other'. `mcphub audit ship list"),
    ],
)
def test_a_mistake_is_named_and_adds_nothing(words: list[str], status: int, answer: str, home: Path) -> None:
    ended = run(home, *words)
    assert (ended.returncode, ended.stdout) == (status, "")
    assert answer in ended.stderr
    with inside(home):
        assert not ShippingTarget.objects.exists()
