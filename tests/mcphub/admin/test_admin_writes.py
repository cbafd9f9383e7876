"""Write stops in the console: the page that stops, the banner on every page, and the way to allow writes again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from mcphub.features.writes.models import WriteStop
from sessions_app.history.models import AuditEvent, WaitingChange
from sessions_app.models import McpWorkspace

pytestmark = pytest.mark.django_db

ADD = "/admin/writes/writestop/add/"
PAGES = ["/admin/", "/admin/invocations/mcptoolinvocation/", "/admin/sessions_app/apikey/", ADD]


def text(client: Client, path: str) -> str:
    answer = client.get(path, follow=True)
    assert answer.status_code == 200, path
    return answer.content.decode()


def test_an_operator_stops_and_every_page_says_who_when_why_and_how_to_undo_it(log_in: Callable[..., Any]) -> None:
    operator, viewer = log_in("Operator"), log_in("Viewer")
    assert "hub-banner" not in text(operator, "/admin/")
    answer = operator.post(ADD, {"workspace": "", "reason": "A leak is looked into."}, follow=True)
    assert "Writes are stopped for everybody." in answer.content.decode()
    row = WriteStop.objects.get()
    assert AuditEvent.objects.get(kind="write_stop.created").reason == "A leak is looked into."
    allow = f"/admin/writes/writestop/{row.pk}/allow/"
    for page in PAGES:
        said = text(operator, page)
        assert "Writes are stopped for everybody." in said
        assert f"{operator.user} stopped them on" in said
        assert "A leak is looked into." in said
        assert f'href="{allow}"' in said
    said = text(viewer, "/admin/invocations/mcptoolinvocation/")
    assert "A leak is looked into." in said
    assert f'href="{allow}"' not in said
    assert viewer.post(allow, {"confirmed": "yes"}).status_code == 403
    change = "/admin/writes/writestop/{}/change/"
    assert operator.post(change.format(row.pk), {"reason": "x"}).status_code == 403
    operator.post(change.format(row.pk + 1), {"reason": "x"})  # Django 5.2 refuses it; 6.1 redirects to the list
    assert WriteStop.objects.get().reason == "A leak is looked into."


def test_what_waits_for_a_second_person_is_said_with_the_way_there(log_in: Callable[..., Any]) -> None:
    row, _ = WriteStop.objects.stop(None, "A leak.")
    first, second = log_in("Operator"), log_in("Operator")
    allow = f"/admin/writes/writestop/{row.pk}/allow/"
    assert "second person must confirm" in text(first, allow)
    said = first.post(allow, {"confirmed": "yes", "reason": "It was none."}, follow=True).content.decode()
    change = f"/admin/sessions_app/waitingchange/{WaitingChange.objects.get().pk}/"
    assert f"{first.user} asked to allow writes" in said
    assert f'href="{change}change/"' in said
    second.post(f"{change}confirm/", {"confirmed": "yes", "reason": "seen"})
    said = text(second, f"/admin/writes/writestop/{row.pk}/change/")
    assert "hub-banner" not in said
    assert "Over" in said
    assert str(second.user) in said


def test_a_superuser_allows_writes_at_once_and_the_list_keeps_the_stop(log_in: Callable[..., Any]) -> None:
    row, _ = WriteStop.objects.stop(McpWorkspace.objects.create(slug="red"), "Reds.")
    root = log_in("superuser")
    assert "Writes are stopped in the workspace red." in text(root, "/admin/")
    root.post(f"/admin/writes/writestop/{row.pk}/allow/", {"confirmed": "yes"})
    assert "hub-banner" not in text(root, "/admin/")
    assert "Reds." in text(root, "/admin/writes/writestop/")
    assert root.get(f"/admin/writes/writestop/{row.pk}/allow/").status_code == 403


def test_a_second_stop_of_the_same_calls_is_refused_with_words(log_in: Callable[..., Any]) -> None:
    WriteStop.objects.stop(None, "First.")
    answer = log_in("Operator").post(ADD, {"workspace": "", "reason": "Second."})
    assert "stopped there already" in answer.content.decode()
    assert WriteStop.objects.count() == 1


def test_the_banner_is_russian_for_whoever_reads_russian(log_in: Callable[..., Any]) -> None:
    WriteStop.objects.stop(None, "Утечка.")
    with translation.override("ru"):
        said = log_in("Viewer").get("/admin/", headers={"accept-language": "ru"}).content.decode()
    assert "Запись остановлена для всех." in said
