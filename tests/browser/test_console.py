"""Every page of the admin, full of foreign text: nothing of it runs, nothing goes out, and everybody can read it.

The pages are found by following the map: each list, its first row, its form to add. Pictures of them go to
`$MCPHUB_SCREENSHOTS`, where that is set.
"""

from __future__ import annotations

import os
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tests.browser.operating import lists_on_the_map

pytestmark = pytest.mark.rig

CANARY = "<img src=x onerror=document.title='ran'><script>document.title='ran'</script>\u202e{{constructor}}"

SEED = f"""
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from mcphub.features.approvals.models import McpApproval
from invocations.chain.models import AuditHold
from invocations.models import McpRedactionRule
from mcphub.features.quotas.models import McpQuota
from mcphub.features.chat.models import ChatMessage, ChatSession, Query
from sessions_app.models import ApiKey
from sessions_app.models.lists import SavedView
from sessions_app.workspaces.models import McpWorkspace
from tests import factories as make
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.backends import python
person = User.objects.create_superuser("operator", password="a long password")
python.discover(["starter"])
canary = {CANARY!r}
from mcphub.features.guardrails.models import McpGuardrail
from mcphub.features.call_rules.models import McpPolicyRule
from tools_catalog.models import McpToolDefinition
told = python.definition("tools_catalog.packs.starter.tools:echo")
tool = McpToolDefinition.objects.filter(name="echo").first() or McpToolDefinition(name="echo")
for field, value in dict(
    title=canary, description=canary, input_schema=told["inputSchema"], output_schema=told.get("outputSchema", {{}}),
    backend="python", configuration=told["configuration"], read_only=True, destructive=False,
).items():
    setattr(tool, field, value)
tool.save()
session = make.McpSessionFactory(client_name=canary[:100], client_version=canary[:50])
process = make.ServerProcessFactory()
more = dict(session=session, process=process, client_name=canary[:100], caller_label=canary[:100], tool_name="echo")
make.McpToolInvocationFactory(arguments={{"text": canary}}, **more)
make.McpToolInvocationFactory(failed=True, error={{"code": -32603, "message": canary}}, **more)
make.McpRequestEnvelopeFactory(session=session, process=process)
make.McpTaskFactory(session=session, process=process, over=True, tool_name=canary[:64], message=canary)
connection = make.McpConnectionFactory(title=canary, policy="hold_all")
offered = definition("search", title=canary, description=canary, inputSchema={{
    "type": "object", "properties": {{canary: {{"type": "string", "title": canary, "description": canary}}}}}})
for row in offer(connection, offered).values():
    discovery.approve(row, author=person, reason=canary[:100])
offer(connection, {{**offered, "description": "other words, and " + canary}}, definition("new", description=canary))
make.McpResourceFactory(uri="https://example.com/canary", name=canary[:100], title=canary, description=canary)
make.McpPromptFactory(name="canary", title=canary, description=canary)
now = timezone.now()
McpApproval.objects.create(
    id="mcpr_1", principal="key:1", caller_label=canary[:100], turn_id="t", call_id=canary, tool_name=canary,
    tool_version="1", arguments={{canary: canary}}, binding="0" * 64, created_at=now,
    expires_at=now + timedelta(hours=1),
)
chat = ChatSession.objects.create(
    principal="key:1", caller_label=canary[:100], expires_at=now + timedelta(hours=1), ends_at=now + timedelta(days=1)
)
query = Query.objects.create(
    session=chat, content=canary, principal="key:1", caller_label=canary[:100], entry_point="query", state="done",
    process_id="p",
)
function = {{"name": canary, "arguments": '{{"a":"' + canary.replace('"', "'") + '"}}'}}
for fields in (
    {{"role": "user", "content": canary}},
    {{"role": "assistant", "tool_calls": [{{"id": "a", "type": "function", "function": function}}]}},
    {{"role": "tool", "content": canary, "tool_call_id": "a"}},
    {{"role": "assistant", "content": canary}},
):
    ChatMessage.objects.create(session=chat, query=query, **fields)
make.LaunchProfileFactory()
ApiKey.issue(canary[:60], scopes=["tools:call"])
make.ErrorGroupFactory(message=canary, tool_name=canary[:64], callers={{"key:1": [canary[:100], 3]}})
make.McpToolsetFactory(title=canary, description=canary)
make.HttpServiceFactory()
make.GroupFactory(name=canary)
McpWorkspace.objects.create(slug="team", title=canary, description=canary)
McpPolicyRule.objects.create(name="ask-first", effect="ask", condition="args.a == '</script>'", words=canary[:100])
McpGuardrail.objects.create(name="no-cards", detectors="card iban", action="mask")
McpQuota.objects.create(name="traffic", per="all", unit="bytes", soft_limit=10**9, period="month", words=canary[:100])
McpRedactionRule.objects.create(kind="header", place="X-Token", part="both", note=canary[:100])
AuditHold.objects.create(name="case", reason=canary, first_block=0, last_block=0)
SavedView.objects.create(
    owner=person, page="invocations.mcptoolinvocation", name=canary[:60], query="q=" + canary, is_shared=True
)
"""

BESIDE = (
    "/admin/connect/",
    "/admin/invocations/auditblock/integrity/",
    "/admin/tools_catalog/mcptooldefinition/bundle/",
    "/admin/tools_catalog/httpservice/import/",
    "/admin/chat/query/usage/",
    "/admin/invocations/mcptoolinvocation/?tool_name=no+such+tool",
)
"""Pages that the map does not lead to."""
ROOM_OF_A_LIST = """[...document.querySelectorAll("#result_list")].every((table) => {
    const around = table.closest(".simplebar-content-wrapper") ?? table.parentElement;
    return around.scrollWidth <= around.clientWidth + 1; })"""

PATHS = "links => links.map(link => new URL(link.getAttribute('href'), document.baseURI).pathname)"
SERIOUS = ("serious", "critical")


def places(page: Any) -> list[str]:
    """Return the pages that the map leads to, and those that these lead to: a row of each list and a new one."""
    lists = [link for link in lists_on_the_map(page) if re.fullmatch(r"/admin/\w+/\w+/", link)]
    more = []
    for link in lists:
        page.goto(link)
        for selector in ("#result_list tbody a[href*='/change/']", "a[href$='/add/']"):
            links = page.eval_on_selector_all(selector, PATHS)
            more += [link for link in links if link.startswith("/admin/")][:1]
    return ["/admin/", *lists, *dict.fromkeys(more), *BESIDE]


@pytest.mark.long
def test_no_page_runs_foreign_text_or_shuts_anybody_out(page: Any) -> None:
    axe = (files("axe_playwright_python") / "axe.min.js").read_text()
    pictures = os.environ.get("MCPHUB_SCREENSHOTS")
    wrong: list[str] = []
    found = places(page)
    assert len(found) > 40
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        for place in found:
            page.goto(place)
            if page.title() == "ran":
                wrong.append(f"{place}: foreign text ran")
            if page.evaluate("document.documentElement.scrollWidth") > 1280:
                wrong.append(f"{place}: wider than the window")
            if not page.evaluate(ROOM_OF_A_LIST):
                wrong.append(f"{place}: the list is wider than its place")
            page.evaluate(axe)
            told = page.evaluate("axe.run({resultTypes: ['violations']})")
            wrong += [
                f"{place} ({theme}): {each['id']}: {each['nodes'][0]['html'][:150]}"
                for each in told["violations"]
                if each["impact"] in SERIOUS
            ]
            if pictures:
                name = place.strip("/").replace("/", "-")
                page.screenshot(path=Path(pictures) / f"{name}-{theme}.png", full_page=True)
    assert wrong == [], "\n" + "\n".join(wrong)
