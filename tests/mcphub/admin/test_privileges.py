"""Who gets in where: every address of the hub's Django, for everybody, against the policy that is written down.

`policy.txt` holds a line for each address: its pattern, and the letters of those who are let in to read it. An address
without a line fails, so that whoever adds one decides. Letters: n nobody in particular, k a key that may call tools,
a key that may read the audit is r; V Viewer, A Auditor, O Operator, U Upstream manager, S superuser.

    python -m pytest tests/mcphub/admin/test_privileges.py --write-policy     writes what is; read the difference
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from invocations.chain.models import AuditHold
from mcphub.chat.models import ChatModel, ChatProvider
from sessions_app.models import ApiKey
from tests.factories import GroupFactory, McpPromptFactory, McpResourceFactory, UserFactory
from tests.mcphub.admin.test_admin_pages import rows as pages_rows  # noqa: F401 - a fixture
from tools_catalog.models import HttpService, McpToolset

pytestmark = [pytest.mark.rig, pytest.mark.django_db]

POLICY = Path(__file__).with_name("policy.txt")
ROLES = {"V": "Viewer", "A": "Auditor", "O": "Operator", "U": "Upstream manager", "S": "superuser"}


def patterns(under: Any = None, before: str = "") -> Iterator[str]:
    """Give every pattern of the URL configuration."""
    for each in get_resolver().url_patterns if under is None else under:
        if isinstance(each, URLResolver):
            yield from patterns(each.url_patterns, before + str(each.pattern))
        elif isinstance(each, URLPattern):
            yield before + str(each.pattern)


@pytest.fixture
def rows(pages_rows: dict[str, Any]) -> dict[str, Any]:  # noqa: F811
    provider = ChatProvider.objects.create(slug="mine", kind="compatible", base_url="https://llm.example.org/v1")
    return pages_rows | {
        "chat_chatprovider": provider,
        "chat_chatmodel": ChatModel.objects.create(provider=provider, name="m"),
        "tools_catalog_httpservice": HttpService.objects.create(slug="git", url="https://git.example.org/rest"),
        "tools_catalog_mcptoolset": McpToolset.objects.create(slug="few", patterns="e*"),
        "tools_catalog_mcpresource": McpResourceFactory(),
        "tools_catalog_mcpprompt": McpPromptFactory(),
        "invocations_audithold": AuditHold.objects.create(name="case", reason="court", principal="key:9"),
        "auth_user": UserFactory(),
        "auth_group": GroupFactory(),
    }


def address(pattern: str, rows: dict[str, Any]) -> str:
    """Fill a pattern in: with the row of its model where there is one."""
    found = re.match(r"admin/(\w+)/(\w+)/", pattern)
    row = rows.get("_".join(found.groups())) if found else None
    pattern = pattern.replace("([^/]+)", "<object_id>", 1).replace("([^/]+)", "1")
    names = {
        "name": "result" if "/body/" in pattern else "echo", "number": "1", "slug": "none", "app_label": "auth",
        "invocation_id": "none", "internal_code": "timeout", "size": "1", "old": "1", "new": "1", "url": "nowhere",
        "content_type_id": "1",
    }  # fmt: skip
    key = str(row.pk) if row is not None else "1"
    filled = re.sub(
        r"<(?:\w+:)?(\w+)>", lambda found: names.get(found[1], key), re.sub(r"\(\?P(<\w+>)[^)]*\)", r"\1", pattern)
    )
    return "/" + filled.replace("^", "").replace("/?$", "/").replace("$", "")


def is_in(answer: Any) -> bool:
    """Whether somebody was let in: shown something, led on, or told that it wants another method or does not exist."""
    if answer.status_code in (301, 302):
        return "/admin/login/" not in answer.headers["Location"]
    return answer.status_code not in (401, 403)


@pytest.fixture
def everybody(log_in: Any) -> dict[str, Client]:
    clients = {"n": Client()}
    for letter, scopes in (("k", ["tools:call"]), ("r", ["audit:read"])):
        _key, text = ApiKey.issue(f"of {letter}", scopes=scopes)
        clients[letter] = Client(headers={"authorization": f"Bearer {text}"})
    return clients | {letter: log_in(role) for letter, role in ROLES.items()}


def test_each_address_admits_whom_the_policy_names(everybody: Any, rows: Any, request: Any) -> None:
    declared = dict(line.split(" ", 1) for line in POLICY.read_text().splitlines()) if POLICY.exists() else {}
    seen = {}
    for pattern in dict.fromkeys(patterns()):
        where = address(pattern, rows)
        letters = ""
        for letter, client in everybody.items():
            if "logout" in pattern:
                continue
            answer = client.get(where)
            assert answer.status_code < 500, f"{where} for {letter}"
            letters += letter if is_in(answer) else ""
        seen[pattern.replace(" ", "")] = letters or "-"
    if request.config.getoption("--write-policy"):
        POLICY.write_text("".join(f"{pattern} {letters}\n" for pattern, letters in sorted(seen.items())))
    else:
        assert {pattern: letters for pattern, letters in seen.items() if declared.get(pattern) != letters} == {}
        assert declared.keys() - seen.keys() == set()
