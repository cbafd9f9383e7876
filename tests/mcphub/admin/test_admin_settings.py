"""The pages of settings and diagnostics: every setting with its value, source and line to write, and no secret."""

from __future__ import annotations

import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import reverse
from hypothesis import given as each
from hypothesis import strategies as st

from invocations.chain.models import AuditPolicy
from mcphub import environment, feature_list, given
from mcphub.console.configuration import masking, reading
from mcphub.console.configuration.bounds import BOUNDS
from mcphub.console.configuration.variables import SECTIONS, VARIABLES
from sessions_app.models import ServerProcess
from tests import factories as make

DOCUMENT = Path(__file__).parents[3] / "docs" / "operate" / "deployment.md"
TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=6, max_size=20).map(
    lambda each: f"S{each}"
)


def test_every_documented_variable_and_every_limit_is_on_the_page() -> None:
    documented = set(re.findall(r"^\| .*", DOCUMENT.read_text(), re.MULTILINE))
    names = {name for row in documented for name in re.findall(r"`(MCPHUB_\w+)`", row.split("|")[1])}
    assert names - {each.name for each in VARIABLES} == {"MCPHUB_FEATURES", "MCPHUB_LIMITS"}
    assert set(BOUNDS) == set(settings.MCPHUB_LIMITS.bounds)
    assert {section for section, _about in BOUNDS.values()} | {each.section for each in VARIABLES} == set(SECTIONS)


@pytest.mark.parametrize("role", ["Viewer", "Auditor", "Upstream manager"])
@pytest.mark.django_db
def test_only_who_may_view_settings_sees_them(role: str, log_in) -> None:
    client = log_in(role)
    for page in ("hub-settings", "hub-diagnostics"):
        assert client.get(reverse(page)).status_code == 403


@pytest.mark.django_db
def test_the_page_shows_what_is_in_force_where_it_is_from_and_what_the_console_changed(log_in, settings) -> None:
    settings.MCPHUB_MAIL = environment.Mail(
        "smtp",
        {"host": "mail.example", "port": 587, "username": "ops", "password": "geheim", "use_tls": True, "use_ssl": 0},
    )
    AuditPolicy(rows_days=400).save()
    ServerProcess.objects.create(process_id="1" * 32, version="0.9.0", host="box", pid=7, memory_bytes=3 * 2**20)
    client = log_in("superuser")
    page = client.get(reverse("hub-settings"))
    rows = {row.name: row for section in page.context["sections"] for row in section.rows}
    assert rows["MCPHUB_MAIL_URL"].value == f"smtp+tls://ops:{masking.MASK}@mail.example:587"
    assert (rows["Retention policy"].value, rows["Retention policy"].source) == (
        "Records: 400 days.",
        "Changed in the console",
    )
    assert (rows["max_calls"].value, rows["max_calls"].source) == ("1,000", "Default")
    text = unescape(page.content.decode())
    assert "geheim" not in text
    assert "3.0" in text
    assert "Workers run different versions" in text
    changed = client.get(reverse("hub-settings"), {"show": "changed"})
    assert {row.name for section in changed.context["sections"] for row in section.rows} >= {"Retention policy"}
    assert "max_body_bytes" not in changed.content.decode()


@pytest.mark.django_db
def test_an_operator_sees_the_findings_of_the_doctor_with_their_mends(log_in, settings) -> None:
    settings.DEBUG = True
    page = log_in("Operator").get(reverse("hub-diagnostics"))
    assert page.status_code == 200
    assert page.context["wrong"] >= 1
    assert "MCPHUB_DEBUG is on" in page.content.decode()
    assert page.context["found"][0][1].level == "wrong"


@pytest.mark.django_db
def test_the_findings_of_the_doctor_and_their_subjects_are_in_the_readers_language(log_in, settings) -> None:
    settings.DEBUG = settings.MCPHUB_ALLOW_ANONYMOUS = True
    settings.MCPHUB_PUBLIC_URL = "ftp://hub.example"
    connection = make.McpConnectionFactory()
    page = log_in("Operator").get(reverse("hub-diagnostics"), headers={"accept-language": "ru"})
    sentences = [text for subject, finding in page.context["found"] for text in (subject, finding.what)]
    sentences += page.context["in_order"]
    assert any(connection.slug in text for text in sentences)
    assert [text for text in sentences if not re.search("[а-я]", text)] == []


@pytest.mark.django_db
def test_every_line_to_switch_a_feature_is_one_that_the_hub_accepts() -> None:
    for row in reading.features():
        if row.line:
            [word] = shlex.split(row.line)
            chosen = feature_list.chosen(word.removeprefix("MCPHUB_FEATURES=").split())
            assert (row.name in chosen) != (row.value == "on"), row.line


def test_a_line_keeps_the_limits_that_are_set_already(monkeypatch) -> None:
    monkeypatch.setenv("MCPHUB_LIMITS", "max_calls=500, drain_seconds=60")
    limits = environment.Limits("MCPHUB_LIMITS")
    assert limits.whole("max_calls", 1000, least=1, most=9999) == 500
    assert (limits.bounds["max_calls"].variable, limits.bounds["max_calls"].default) == ("MCPHUB_LIMITS", 1000)
    assert limits.line(max_calls=7) == "max_calls=7, drain_seconds=60"


def test_a_value_is_from_a_flag_the_environment_or_a_default(monkeypatch) -> None:
    for name in ("MCPHUB_A_TEST", "MCPHUB_OTHER_TEST"):
        monkeypatch.delenv(name, raising=False)
    assert given.source("MCPHUB_A_TEST") == "default"
    monkeypatch.setenv("MCPHUB_A_TEST", "1")
    assert given.source("MCPHUB_A_TEST") == "environment"


@each(TEXT, TEXT, st.sampled_from(["https", "postgres", "smtp"]), st.integers(1, 65535))
def test_no_secret_of_an_address_is_shown(user: str, password: str, scheme: str, port: int) -> None:
    for shown in (
        masking.address(f"{scheme}://u:{password}@host.example:{port}/path?token={user}#x"),
        masking.address(f"{scheme}://{password}@host.example/path"),
        masking.origin(f"{scheme}://u:{password}@host.example:{port}/{user}?a={user}"),
        masking.command(["/bin/sign", "--pin", password, user]),
        masking.userinfo(f"{scheme}://{user}@host.example/{{trace_id}}"),
    ):
        assert password not in shown
        assert user not in shown
        assert masking.MASK in shown
