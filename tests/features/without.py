"""A hub with the features that `MCPHUB_FEATURES` names, in one process: pages, REST and a first call.

    python -m tests.features.without

Prints, as JSON, the commands, the modules of features that were imported, the areas of the console and what a call came
to. Fails where a page of the console cannot be drawn.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import sys
from typing import Any

from tests.waiting import PATIENCE_SECONDS

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "tell", "arguments": {"times": 0}}}
ASKED = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "tell_list_plainly", "arguments": {"kind": "tools"}},
}
"""A call that a rule asks about, where call rules are on."""
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
ADDRESSES = (
    "/v1/models",
    "/api/model-prices/",
    "/api/notices/",
    "/api/approvals/",
    "/api/alerts/",
    "/api/guardrails/",
    "/api/policy-rules/",
    "/api/errors/",
    "/api/quotas/",
    "/api/audit/shipping/",
    "/scim/v2/Users",
    "/mcp/messages",
    "/connect/callback/",
    "/mcp/server-card",
)
QUOTA = {
    **dict.fromkeys(("loaded_by", "target", "words", "provider"), ""),
    "applies_to": "all",
    "enabled": True,
    "unit": "calls",
    "period": "day",
    "hard_limit": 5,
    "created_at": "2026-01-01",
    "updated_at": "2026-01-01",
}
"""A quota, as its table has it where no module of the feature is imported."""
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def call() -> dict[str, Any]:
    """Start the hub, make one call over Streamable HTTP, read its health, and stop."""
    import httpx2

    from mcphub.asgi import application
    from mcphub.process import runtime

    hub = await runtime.ensure()
    transport = httpx2.ASGITransport(app=application)
    async with httpx2.AsyncClient(
        transport=transport, base_url="http://localhost:8000", timeout=PATIENCE_SECONDS
    ) as http:
        hello = await http.post("/mcp", json=HELLO, headers=HEADERS)
        session = {**HEADERS, "Mcp-Session-Id": hello.headers["mcp-session-id"]}
        answer = await http.post("/mcp", json=CALL, headers=session)
        asked = await http.post("/mcp", json=ASKED, headers=session)
        health = await hub.health()
        addresses = {path: (await http.get(path)).status_code for path in ADDRESSES}
    await runtime.stop()
    return {"call": answer.json(), "asked": asked.json(), "health": health, "addresses": addresses}


def pages() -> tuple[dict[str, str], str]:
    """Draw what a superuser sees: pages of the map, forms, *My access*, REST. Return statuses, and the overview."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from invocations.models import McpToolInvocation
    from mcphub.console import navigation
    from tools_catalog.models import McpToolDefinition

    user = User.objects.create_superuser("root", password=None)
    client = Client(SERVER_NAME="localhost")
    client.force_login(user)
    call, tool = McpToolInvocation.objects.latest("pk"), McpToolDefinition.objects.first()
    assert tool is not None
    # As a model made it, whose chat may be off by now.
    values = {each.attname: getattr(call, each.attname) for each in call._meta.concrete_fields if not each.primary_key}
    of_model = {**values, "invocation_id": f"{call.invocation_id[:-4]}0000", "turn_id": "turn-1"}
    call = McpToolInvocation.objects.create(**of_model)
    wanted = [tab.link for area in navigation.areas() for tab in area.tabs]
    wanted += [
        reverse("admin:invocations_mcptoolinvocation_change", args=[call.pk]),
        f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?columns=time,tool,turn",
        reverse("admin:tools_catalog_mcptooldefinition_change", args=[tool.pk]),
        reverse("admin:tools_catalog_mcpconnection_add"),
        reverse("admin:tools_catalog_httpservice_add"),
        reverse("admin:sessions_app_apikey_add"),
        reverse("admin:auth_user_change", args=[user.pk]),
        reverse("my-access"),
        "/admin/find/",
        "/api/",
        "/api/schema/",
        "/api/invocations/",
    ]
    found: dict[str, str] = {}
    for link in wanted:
        try:
            found[link] = str(client.get(link).status_code)
        except Exception as error:
            found[link] = f"{type(error).__name__}: {error}"
    return found, client.get("/admin/").content.decode()


def deletions() -> dict[str, str]:
    """Delete a group and a person that quotas name, on each way. Return way -> what it says."""
    from django.contrib.auth.models import Group, User
    from django.db import connection
    from django.test import Client
    from django.urls import reverse

    client = Client(SERVER_NAME="localhost")
    client.force_login(User.objects.get(username="root"))
    group, person = Group.objects.create(name="sales"), User.objects.create(username="ann")
    with connection.cursor() as cursor:
        for column, row in (("group_id", group), ("person_id", person)):
            quota = {**QUOTA, "name": column, "per": column.removesuffix("_id"), column: row.pk}
            cursor.execute(
                f"INSERT INTO invocations_mcpquota ({', '.join(quota)}) VALUES ({', '.join(['%s'] * len(quota))})",
                [*quota.values()],
            )
    found = {}
    for name, row in (("group", group), ("person", person)):
        table = row._meta.db_table
        page = reverse(f"admin:{table}_delete", args=[row.pk])
        found[f"page of a {name}"] = client.post(page, {"post": "yes"}).content.decode()
        chosen = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
        found[f"list of a {name}"] = client.post(reverse(f"admin:{table}_changelist"), chosen).content.decode()
    found["REST"] = client.delete("/api/groups/sales/").content.decode()
    found["command"] = command("group", "remove", "sales")
    assert Group.objects.filter(name="sales").exists()
    assert User.objects.filter(username="ann").exists()
    return found


def command(*words: str) -> str:
    from mcphub import cli

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        cli.main([*words])
    return said.getvalue()


def main() -> None:
    import django

    django.setup()
    from django.conf import settings
    from django.core.management import call_command

    from mcphub import groups
    from mcphub.cli import commands
    from mcphub.console import navigation
    from mcphub.process import doctor

    call_command("check", verbosity=0)
    groups.install()
    found = asyncio.run(call())
    found["pages"], overview = pages()
    found["banner"] = overview if "hub-banner" in overview else ""
    found["deletions"] = {} if "quotas" in settings.MCPHUB_FEATURES else deletions()
    found["areas"] = [area.name for area in navigation.areas()]
    found["commands"] = list(commands())
    found["features"] = settings.MCPHUB_FEATURES
    findings = dict(doctor.examine())
    told = findings["features"]
    found["findings"] = [finding.what for finding in told]
    found["unenforced"] = [finding.what for finding in findings["policies"]]
    names = [name.split(".") for name in sys.modules if name.startswith("mcphub.features.")]
    found["imported"] = sorted({name[2] for name in names if name[3:] not in ([], ["apps"])})
    print(json.dumps(found))


if __name__ == "__main__":
    main()
