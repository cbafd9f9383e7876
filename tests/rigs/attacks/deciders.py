"""Attacks of one person who wants to be two."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import httpx2

import sessions_app
from tests import operations
from tests.rigs.attacks import rows
from tests.rigs.attacks.target import Attack, Target, need
from tests.servers import until
from tests.upstreams.conftest import PEERS
from tests.waiting import PATIENCE_SECONDS
from tests.wire import approving
from tests.wire.signing_in import make_person
from tests.wire.speech import Speaker

_CSRF = "c" * 32
_TOOL = {"name": "wire_money", "description": "x", "input_schema": {"type": "object"}, "backend": "http"}
_CHANGES = "sessions_app.WaitingChange"


def logged_in(target: Target, name: str, *groups: str) -> httpx2.Client:
    """Return a client with the login of a new person of the console, for REST and pages."""
    made = target.hub.operate(make_person, name, groups, staff=True)
    cookies = f"{made['named']}={made['cookie']}; {made['named'].replace('_admin_', '_csrf_')}={_CSRF}"
    headers = {"cookie": cookies, "x-csrftoken": _CSRF}
    return httpx2.Client(base_url=target.hub.url, headers=headers, timeout=PATIENCE_SECONDS)


def two_by_keys(target: Target) -> str:
    """An operator proposes by a key that their key made, and confirms in the console."""
    with logged_in(target, "two-by-keys", "Operator") as person:
        first = _made(person, "first", ["keys:write", "catalog:write"])
        with target.rest(first) as by_first:
            second = _made(by_first, "second", ["catalog:write"])
        outcomes = {}
        for name, key in (("first", first), ("second", second)):
            with target.rest(key) as robot:
                tool = f"wire_{name}"
                configuration = {"url": "https://api.example.org/x"}
                made = robot.post(
                    "/api/tool-definitions/", json={**_TOOL, "name": tool, "configuration": configuration}
                )
                assert made.status_code == 201, made.text
                held = robot.patch(f"/api/tool-definitions/{tool}/", json={"destructive": False})
                assert held.status_code == 202, held.text
            number = held.json()["waiting_change"]
            body = {"confirmed": "1", "reason": "me", "csrfmiddlewaretoken": _CSRF}
            said = person.post(f"/admin/sessions_app/waitingchange/{number}/confirm/", data=body)
            outcomes[name] = said.status_code
            state = target.hub.operate(operations.values, _CHANGES, "state", pk=number)
            need(state == ["waiting"], f"who made the {name} key confirmed what it proposed: {state}")
    return f"the console answered who made them with {outcomes}"


def own_approval(target: Target) -> str:
    """An operator calls by a key of a service of theirs, and approves the call as themselves."""
    target.hub.operate(approving.demand, "count")
    try:
        with logged_in(target, "own-approval", "Operator", "Auditor") as person:
            key = _made(person, "robot", ["tools:list", "tools:call"])
            target.hub.settle()
            with Speaker(target.hub.url, key) as speaker:
                speaker.modern_call("count", {"name": "own-approval"})
            [row] = person.get("/api/approvals/?status=pending").json()["results"]
            said = person.post(f"/api/approvals/{row['id']}/approve/", json={"reason": "me"})
            need(said.status_code == 403, f"approved by who asked: {said.status_code} {said.text[:200]}")
            person.post(f"/api/approvals/{row['id']}/deny/", json={"reason": "over"})
    finally:
        target.hub.operate(operations.delete, "invocations.McpToolApproval")
    return said.json()["error"]["message"]


def role_by_directory(target: Target) -> str:
    """A directory's key puts its own group among the people of a workspace, and among the roles."""
    target.hub.operate(operations.create, "sessions_app.McpWorkspace", slug="taken")
    with target.rest(target.key("directory", "people:write")) as directory:
        group = {"schemas": ["urn:ietf:params:scim:schemas:core:2.0:Group"], "displayName": "own"}
        made = directory.post("/scim/v2/Groups", json=group, headers={"content-type": "application/scim+json"})
        assert made.status_code == 201, made.text
        tries = {
            "auditors": directory.patch("/api/workspaces/taken/", json={"auditors": ["own"]}),
            "operators": directory.patch("/api/workspaces/taken/", json={"operators": ["own"]}),
            "a new workspace": directory.post("/api/workspaces/", json={"slug": "fresh", "auditors": ["own"]}),
            "permissions": directory.patch("/api/groups/own/", json={"permissions": ["invocations.read_bodies"]}),
        }
        members = directory.patch("/api/workspaces/taken/", json={"members": ["own"]}).status_code
        now = directory.get("/api/workspaces/taken/").json()["members"]
    need(members == 202 and not now, f"a directory's key let {now} into a workspace: {members}")
    outcomes = {name: answer.status_code for name, answer in tries.items()}
    need(not [each for each in outcomes.values() if each < 400], f"a directory's key gave a role: {outcomes}")
    outcomes["members"] = members
    return f"the hub answered with {outcomes}"


def secrecy_alone(target: Target) -> str:
    """One person makes the next secret readable: by a redaction rule, its tool's name or its schema."""
    place, name = "$..pin", "loud-pin"
    rule = {"kind": "path", "place": place, "part": "both", "tool_name": name}
    schema = {"type": "object", "properties": {"pin": {"type": "string"}, "card": {"type": "string", "x-secret": True}}}
    plain = {"type": "object", "properties": {"pin": {"type": "string"}, "card": {"type": "string"}}}
    configuration = {"method": "POST", "url": "https://api.example.org/pin"}
    tool = {**_TOOL, "name": name, "input_schema": schema, "configuration": configuration}
    secret = "canary-9471-of-the-house"
    with (
        logged_in(target, "loud-auditor", "Auditor") as auditor,
        logged_in(target, "loud-operator", "Operator") as operator,
        Speaker(target.hub.url, target.hub.key) as speaker,
    ):
        assert operator.post("/api/tool-definitions/", json=tool).status_code == 201
        made = auditor.post("/api/redaction-rules/", json=rule)
        assert made.status_code == 201, made.text
        number = made.json()["id"]
        tries = {
            "off": auditor.patch(f"/api/redaction-rules/{number}/", json={"enabled": False}),
            "narrower": auditor.patch(f"/api/redaction-rules/{number}/", json={"part": "result"}),
            "name": operator.patch(f"/api/tool-definitions/{name}/", json={"name": "quiet"}),
            "mark": operator.patch(f"/api/tool-definitions/{name}/", json={"input_schema": plain}),
        }
        outcomes = {way: answer.status_code for way, answer in tries.items()}
        until(lambda: name in speaker.modern("tools/list").text)
        target.hub.settle()  # the rule came after the tool
        speaker.modern_call(name, {"pin": secret, "card": secret})
        row = until(lambda: auditor.get(f"/api/invocations/?tool={name}").json()["results"])[0]
        shown = auditor.get(f"/api/invocations/{row['invocation_id']}/").text
    need(secret not in shown, f"the secret is on record: {shown[:300]}")
    need(set(outcomes.values()) == {202}, f"one person lowered the secrecy: {outcomes}")
    return f"{len(outcomes)} edits wait for a second person, and the record has no secret"


def behind_a_connection(target: Target) -> str:
    """One person has a covered tool run another program, and the judge of a guardrail be another."""
    arguments = [str(PEERS / "small.py"), "till"]
    profile = target.hub.operate(
        operations.create, "tools_catalog.LaunchProfile", name="till", command=sys.executable, arguments=arguments
    )
    trusted = {"policy": "trust", "starts_eagerly": True, "transport": "stdio", "url": "", "profile_id": profile}
    target.hub.operate(operations.create, "tools_catalog.McpConnection", slug="till", **trusted)
    rule = {"name": "till", "applies_to": "connection", "target": "till", "condition": "has(args.amount)"}
    target.hub.operate(operations.create, "tools_catalog.McpPolicyRule", **rule, effect="deny", words="no")
    judge = {"slug": "judge", "url": "https://judge.example.org"}
    target.hub.operate(operations.create, "tools_catalog.HttpService", **judge)
    asks = {"name": "judged", "applies_to": "tool", "target": "till_greet", "direction": "result", "action": "inspect"}
    asks |= {"checked_by": "service", "service": "judge", "path": "/look", "on_failure": "open"}
    target.hub.operate(operations.create, "tools_catalog.McpGuardrail", **asks)
    with (
        logged_in(target, "till-manager", "Upstream manager") as manager,
        Speaker(target.hub.url, target.hub.key) as speaker,
    ):
        until(lambda: "till_greet" in speaker.modern("tools/list").text)
        target.hub.settle()  # the call at the end may meet another worker
        tries = {
            **{
                name: manager.patch("/api/launch-profiles/till/", json={name: value})
                for name, value in (
                    ("command", "/bin/true"),
                    ("arguments", [arguments[0], "robbed"]),
                    ("environment", {"TILL": "else"}),
                    ("directory", str(PEERS)),
                )
            },
            **{
                name: manager.patch("/api/services/judge/", json={name: value})
                for name, value in (("url", "https://yes.example.org"), ("headers", {"X-A": "b"}), ("enabled", False))
            },
        }
        outcomes = {way: answer.status_code for way, answer in tries.items()}
        need(set(outcomes.values()) == {202}, f"one person changed what is behind: {outcomes}")
        said = speaker.modern_call("till_greet", {}).text
        need("hello from till" in said, f"another program answered: {said[:200]}")
    return f"{len(outcomes)} edits wait for a second person, and the same program answered"


def _made(client: httpx2.Client, name: str, scopes: list[str]) -> str:
    answer: Any = client.post("/api/keys/", json={"name": name, "scopes": scopes})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["text"])


def writable_hub(target: Target) -> str:
    """An upstream manager lets a child write what the hub runs or reads."""
    code, data = Path(sessions_app.__file__).parent, target.hub.data
    paths = [code, code.parent / "mcphub", Path(sys.prefix), Path("/etc"), Path("/root"), data, data / "../hub", "/"]
    with logged_in(target, "writes-the-hub", "Upstream manager") as person:
        taken = {}
        for number, path in enumerate(map(str, paths)):
            profile = {"name": f"writes{number}", "command": sys.executable, "writable": [path]}
            answer = person.post("/api/launch-profiles/", json=profile)
            taken[path] = answer.status_code
            need(answer.status_code == 409 and "writable" in answer.text, f"{path}: {answer.text[:200]}")
    return f"{len(taken)} of {len(taken)} paths were refused"


def others_rights(target: Target) -> str:
    """An editor of tools writes a view that reads a reserved tool as whoever tries its own, and sends that outside."""
    uri = "ui://harmless/page.html"
    outside = {"ui": {"csp": {"connectDomains": ["https://evil.example", "https://10.0.0.1"]}}}
    view = {"uri": uri, "name": "harmless", "mime_type": "text/html;profile=mcp-app", "backend": "text"}
    tool = {**_TOOL, "configuration": {"url": "https://api.example.org/x"}}
    read = {**tool, "name": "fin_report", "read_only": True, "destructive": False}
    target.hub.operate(rows.reserve_tool, group="Finance", **read)
    with (
        logged_in(target, "view-reader", "Operator", "Finance") as reader,
        target.rest(target.key("view-writer", "catalog:write")) as writer,
    ):
        held = writer.post("/api/resources/", json={**view, "content": "<p>", "meta": outside})
        assert held.status_code in (201, 202), held.text
        shown = writer.post(
            "/api/tool-definitions/", json={**tool, "name": "harmless", "meta": {"ui": {"resourceUri": uri}}}
        )
        assert shown.status_code == 201, shown.text
        target.hub.settle()
        [number] = target.hub.operate(operations.values, "tools_catalog.McpToolDefinition", "pk", name="harmless")
        address = f"/admin/tools_catalog/mcptooldefinition/{number}/view/"
        page = reader.get(address, headers={"sec-fetch-dest": "iframe"})
        need(
            "evil.example" not in page.headers["content-security-policy"], "one person let a view send results outside"
        )
        tries = {}
        for name in ("harmless", "fin_report", "recent_invocations"):
            asked = {"method": "tools/call", "params": {"name": name, "arguments": {}}}
            tries[name] = reader.post(f"{address}asked/", json=asked).json()
    need("may call no tool" not in str(tries.pop("harmless")), "the view's own tool was refused: nothing was tried")
    got = {name: answer for name, answer in tries.items() if "may call no tool" not in str(answer)}
    need(not got, f"the view read more than its own: {str(got)[:300]}")
    return f"{len(tries)} tools of others were refused, and the page's policy names no host outside"


ATTACKS = [
    Attack("14a", "one person proposes by a key's key and confirms", two_by_keys),
    Attack("14b", "one person calls by a service's key and approves", own_approval),
    Attack("15", "a directory's key gives its own group a role", role_by_directory),
    Attack("1c", "an upstream manager lets a child write the hub", writable_hub),
    Attack("16", "one person makes others' secrets readable", secrecy_alone),
    Attack("18", "a view reads with the rights of who looks at it", others_rights),
    Attack("Me", "one person changes the program behind a covered tool, or a guardrail's judge", behind_a_connection),
]
