"""The login of people who sign a client in, and the list in which operators take consents back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client as Browser
from django.urls import reverse
from oauth2_provider.models import Application

from mcphub.features.signin.models import Consent
from sessions_app.models import AuditEvent, BusEvent
from tests.mcphub.admin.conftest import _ground, log_in  # noqa: F401

PASSWORD = "a long password"
WANTED = "/oauth/authorize/?client_id=x"


@pytest.fixture
def anna(db: Any) -> User:
    return User.objects.create_user("anna", password=PASSWORD)


def test_a_person_without_rights_in_the_console_logs_in(anna: User) -> None:
    browser = Browser()
    asked = {"username": "anna", "password": PASSWORD, "next": WANTED}
    answer = browser.post("/oauth/login/", asked)
    assert (answer.status_code, answer["location"]) == (302, WANTED)
    assert AuditEvent.objects.filter(kind="login.succeeded", actor=f"user:{anna.pk}").exists()


def test_guesses_are_bounded_here_too(anna: User) -> None:
    asked = {"username": "anna", "password": "wrong", "next": WANTED}
    statuses = [Browser().post("/oauth/login/", asked).status_code for _ in range(8)]
    assert statuses[0] == 200
    assert statuses[-1] == 429


def test_an_operator_takes_consents_back(log_in: Any, anna: User) -> None:  # noqa: F811
    client = Application.objects.create(name="Claude", redirect_uris="https://claude.example/callback")
    Consent.give(anna, client, "/mcp", ["tools:list"])
    page = reverse("admin:signin_consent_changelist")
    browser = log_in("Operator")
    assert "Claude" in browser.get(page).content.decode()
    [pk] = Consent.objects.values_list("pk", flat=True)
    chosen = {"action": "revoke_selected", "_selected_action": [pk]}
    assert Consent.objects.exists()
    answer = browser.post(page, {**chosen, "confirmed": "yes", "reason": "lost laptop"})
    assert answer.status_code == 302, answer.content.decode()
    assert not Consent.objects.exists()
    [event] = AuditEvent.objects.filter(kind="consent.revoked")
    assert event.reason == "lost laptop"
    assert event.actor == f"user:{browser.user.pk}"
    assert BusEvent.objects.filter(subject="caller_ended", payload=f"user:{anna.pk}").exists()
    assert "action" not in log_in("Auditor").get(page).context["cl"].list_display
