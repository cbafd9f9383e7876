"""Who gets in where, and who may do what there: every address of the hub's Django, for everybody.

`policy.txt` is the table that decides; each address is read, and each change is asked for: POST of every page of the
admin, each action of each list, and every method of REST that changes. An address of no line fails, so that whoever
adds one decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.messages import get_messages
from django.db import transaction
from django.test import Client
from django.urls import resolve, reverse
from django.views.generic import RedirectView

from sessions_app.models import ApiKey
from tests.factories import UserFactory
from tests.mcphub.admin.policy import NOBODY, Undeclared, read
from tests.rigs.addresses import address, one_of_each, patterns

pytestmark = [pytest.mark.rig, pytest.mark.long, pytest.mark.django_db]

POLICY = Path(__file__).with_name("policy.txt")
KEYS = {
    "k": ["tools:call"],
    "r": ["audit:read"],
    "w": ["tools:list", "catalog:write"],
    "p": ["audit:read", "tools:call", "calls:replay"],
    "d": ["people:write"],
}
ROLES = {"V": "Viewer", "A": "Auditor", "O": "Operator", "U": "Upstream manager", "S": "superuser"}

Asked = Callable[[Client], bool]
What = tuple[str, str, str]
"""Method, pattern, and the action of a list or nothing."""


@pytest.fixture
def rows(echo: Any) -> dict[str, Any]:
    # A call of it waits for a word more, so asking to try it makes none: a call would run in a loop of its own.
    echo.read_only, echo.destructive = False, True
    echo.save()
    return one_of_each() | {"auth_user": UserFactory()}  # nobody disables himself


@pytest.fixture
def everybody(log_in: Any) -> dict[str, Client]:
    clients = {"n": Client()}
    for letter, scopes in KEYS.items():
        _key, text = ApiKey.issue(f"of {letter}", scopes=scopes)
        clients[letter] = Client(headers={"authorization": f"Bearer {text}"})
    return clients | {letter: log_in(role) for letter, role in ROLES.items()}


def is_in(answer: Any) -> bool:
    """Return whether somebody was let in: shown something, led on, or told that it wants another method or does not
    exist.
    """
    if answer.status_code in (301, 302):
        return not re.match(r"(/admin)?/login/\?next=(/|%2F)", answer.headers["Location"])
    return answer.status_code not in (401, 403)


def reads(rows: dict[str, Any]) -> Iterator[tuple[What, Asked]]:
    """Return each address, and how it is read."""
    for pattern in dict.fromkeys(patterns()):
        if "logout" not in pattern:
            where = address(pattern, rows)
            yield ("GET", pattern, ""), lambda client, where=where: is_in(_answer(client, "GET", where))


def changes(rows: dict[str, Any]) -> Iterator[tuple[What, Asked]]:
    """Return each change, and how it is asked for: with an empty form, which a page complains of."""
    lists = {reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist") for model in _pages()}
    for pattern in dict.fromkeys(patterns()):
        where = address(pattern, rows)
        if pattern.startswith(("api/", "scim/")):
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                yield (method, pattern, ""), lambda client, to=(method, where): _may_change(_answer(client, *to))
        elif not (where in lists or "logout" in pattern or _only_leads_on(where)):
            yield ("POST", pattern, ""), lambda client, where=where: _may_change(_answer(client, "POST", where))
    for model, page in _pages().items():
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        where = reverse(f"admin:{name}_changelist")
        for action in page.get_actions(_by_superuser(page)) if page.actions else ():
            chosen = [rows[name].pk] if name in rows else []
            form = {"action": action, ACTION_CHECKBOX_NAME: chosen, "index": "0"}
            yield ("POST", where[1:], action), lambda client, to=(where, form): _may_act(client, *to)
        if page.list_editable:
            form = {"_save": "1", "form-TOTAL_FORMS": "0", "form-INITIAL_FORMS": "0"}
            yield (
                ("POST", where[1:], "edited"),
                lambda client, to=(where, form): _may_change(_answer(client, "POST", *to)),
            )


def _pages() -> dict[Any, Any]:
    return dict(admin.site._registry)


def _by_superuser(page: Any) -> Any:
    from django.contrib.auth.models import User
    from django.test import RequestFactory

    request = RequestFactory().get("/")
    request.user = User(username="anybody", is_active=True, is_staff=True, is_superuser=True)
    return request


def _only_leads_on(where: str) -> bool:
    return getattr(resolve(where).func, "view_class", None) is RedirectView


def _answer(client: Client, method: str, where: str, form: dict[str, Any] | None = None) -> Any:
    """Ask, and take back whatever it changed."""
    with transaction.atomic():
        if method == "GET":
            answer = client.get(where)
        elif where.startswith(("/api/", "/scim/")):
            answer = client.generic(method, where, b"{}", content_type="application/json")
        else:
            answer = client.post(where, form or {})
        if method != "GET":
            transaction.set_rollback(True)
    assert answer.status_code < 500, f"{method} {where}: {answer.status_code}"
    return answer


def _may_change(answer: Any) -> bool:
    """Return whether the method is there at all, and open to who asked."""
    return is_in(answer) and answer.status_code != 405


def _may_act(client: Client, where: str, form: dict[str, Any]) -> bool:
    """Return whether a list acts on what is chosen. It shows itself again to who is not offered the action."""
    client.cookies.pop("messages", None)  # what an earlier action was told, and no page has shown
    answer = _answer(client, "POST", where, form)
    if not is_in(answer) or "cl" in (getattr(answer, "context_data", None) or {}):
        return False
    said = [str(message) for message in get_messages(answer.wsgi_request)]
    return "No action selected." not in said


def test_each_address_admits_whom_the_policy_names(everybody: Any, rows: Any) -> None:
    policy = read(POLICY)
    others: dict[str, str] = {}
    for asked in (reads, changes):
        for what, ask in asked(rows):
            seen = "".join(letter for letter, client in everybody.items() if ask(client)) or NOBODY
            try:
                declared = policy.admits(*what)
            except Undeclared as unknown:
                declared = f"no line for {unknown}"
            if seen != declared:
                others[" ".join(what).strip()] = f"admitted {seen}, declared {declared}"
    assert others == {}
    assert policy.unused() == set()
