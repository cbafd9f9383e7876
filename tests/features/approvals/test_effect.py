"""A yes is bound to all that decides what its call does and where; replays are judged by the rules of now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from invocations.call_source import CallSource, ClientChannel
from invocations.configuration import Configuration
from invocations.exchange import CallRequest
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking
from mcphub.features.approvals.asking import Asked
from mcphub.features.approvals.deciding import Decider, Decision, DecisionRefused, decide
from mcphub.features.approvals.models import McpApproval, McpToolApproval
from mcphub.features.approvals.releasing import Approvals
from mcphub.features.approvals.rules import SUBJECT
from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.call_rules.rule import Facts, ToolPolicy, finding
from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.caller import Caller
from sessions_app.history.events import Actor
from sessions_app.models import AuditEvent
from sessions_app.protocol.authorization_flow import TokenAnswer
from sessions_app.workspaces.models import McpWorkspace
from tests.factories import (
    HttpServiceFactory,
    LaunchProfileFactory,
    McpConnectionFactory,
    McpToolDefinitionFactory,
    McpToolsetFactory,
)
from tests.invocations.calls.call_path import CallPath, run, source
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.accounts import storing
from tools_catalog.catalog.snapshot import Catalog, Tool
from tools_catalog.models import HttpService, McpConnection, McpToolDefinition, Secret
from tools_catalog.models.accounts import UpstreamRegistration
from tools_catalog.policy.ask import Ask

YES = Decision(approve=True, grant="hour")
ANN = Decider("user:1", "ann")
ROBOT = Caller(principal="key:1", label="robot", scopes=frozenset({"tools:call"}), groups=frozenset())
CALLER = Caller(principal="user:9", label="carl", scopes=frozenset({"tools:call"}), sees_everything=True)

Edit = Callable[[], object]


def keep(name: str, value: str) -> None:
    row = Secret.objects.filter(name=name).first() or Secret(
        name=name, origins="https://api.example.org https://mcp.example.org", places="headers.*"
    )
    row.set_value(value)
    row.save()


def change(row: Any, **fields: object) -> None:
    row.refresh_from_db()
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()


@pytest.fixture
def http(db: Any) -> str:
    return an_http_tool()


def an_http_tool() -> str:
    keep("bank", "one")
    keep("tool", "one")
    HttpServiceFactory(slug="bank", headers={"Authorization": "Bearer {secret:bank}"})
    HttpServiceFactory(slug="other")
    McpToolDefinitionFactory(
        name="pay",
        configuration={"service": "bank", "method": "POST", "url": "/pay", "headers": {"X-Key": "{secret:tool}"}},
    )
    return "pay"


@pytest.fixture
def upstream(db: Any) -> str:
    keep("bank", "one")
    row = McpConnectionFactory(slug="bank", policy="trust", headers={"X-Key": "{secret:bank}"})
    offer(row, definition("pay"))
    return "bank_pay"


def asked(tool: Tool, **arguments: Any) -> Asked:
    call = CallSource(caller=ROBOT, session_id="one", transport="http")
    return Asked(source=call, tool=tool, ask=Ask(rule="r", version=1), arguments=arguments, recorded=arguments)


def now(name: str) -> Tool:
    return Catalog.load().tools[name]


def service(**fields: object) -> Edit:
    return lambda: change(HttpService.objects.get(slug="bank"), **fields)


def tool(**fields: object) -> Edit:
    return lambda: change(McpToolDefinition.objects.get(name="pay"), **fields)


def connection(**fields: object) -> Edit:
    return lambda: change(McpConnection.objects.get(slug="bank"), **fields)


def moved(to: dict[str, object]) -> Edit:
    def edit() -> None:
        row = McpToolDefinition.objects.get(name="pay")
        change(row, configuration={**row.configuration, **to})

    return edit


def upstream_changes_it() -> None:
    row = McpConnection.objects.get(slug="bank")
    offer(row, {**definition("pay"), "description": "Pays somebody else."})


def into_a_workspace() -> None:
    tool(workspace=McpWorkspace.objects.create(slug="team"))()


def upstream_is_started_otherwise() -> None:
    connection(transport="stdio", url="", headers={}, profile=LaunchProfileFactory())()


OF_HTTP: dict[str, Edit] = {
    "service's address": service(url="https://evil.example.org/v1"),
    "service's headers": service(headers={"X-Tenant": "2"}),
    "service's account": service(account="shared", issuer="https://issuer.example.org"),
    "service's secret": lambda: keep("bank", "two"),
    "tool's secret": lambda: keep("tool", "two"),
    "tool's service": moved({"service": "other"}),
    "tool's path": moved({"url": "/elsewhere"}),
    "tool's words": tool(description="Pays twice."),
    "tool's name": tool(name="pays"),
    "tool's effects": tool(destructive=False),
    "tool's retries": tool(retry_safe=True),
    "tool's workspace": into_a_workspace,
}
OF_UPSTREAMS: dict[str, Edit] = {
    "connection's address": connection(url="https://evil.example.org/mcp"),
    "connection's headers": connection(headers={"X-Tenant": "2"}),
    "connection's account": connection(account="shared"),
    "connection's secret": lambda: keep("bank", "two"),
    "connection's program": upstream_is_started_otherwise,
    "upstream's definition": upstream_changes_it,
}
HARMLESS: dict[str, Edit] = {
    "nothing": lambda: None,
    "the rate": tool(calls_per_minute=7),
    "another service": lambda: change(HttpService.objects.get(slug="other"), url="https://x.example.org"),
    "another secret": lambda: keep("none", "three"),
    "a toolset": lambda: McpToolsetFactory(slug="till"),
}


def check_void(name: str, edit: Edit) -> None:
    """A waiting call cannot be approved, an approved one is not made, and a yes for an hour is over."""
    before = now(name)
    waits = asking.attach(asked(before, n=1))
    granted = decide(asking.attach(asked(before, n=2)), YES, ANN, RecordRedaction())
    assert asking.granted(asked(before, n=3)) == granted.pk
    edit()
    after = {each.name: each for each in Catalog.load().tools.values()}.get(name) or now("pays")
    with pytest.raises(DecisionRefused) as refused:
        decide(waits, YES, ANN, RecordRedaction())
    assert refused.value.why == "changed"
    assert not asking.granted(asked(after, n=3))
    assert asking.attach(asked(after, n=2)).status == McpApproval.Status.PENDING


@pytest.mark.parametrize("what", OF_HTTP)
def test_a_yes_is_void_once_an_http_call_would_do_or_reach_something_else(http: str, what: str) -> None:
    check_void(http, OF_HTTP[what])


@pytest.mark.parametrize("what", OF_UPSTREAMS)
def test_a_yes_is_void_once_an_upstream_call_would_do_or_reach_something_else(upstream: str, what: str) -> None:
    check_void(upstream, OF_UPSTREAMS[what])


@pytest.mark.parametrize("what", HARMLESS)
def test_a_yes_outlives_what_the_call_does_not_depend_on(http: str, what: str) -> None:
    waits = asking.attach(asked(now(http), n=1))
    HARMLESS[what]()
    assert asking.attach(asked(now(http), n=1)).pk == waits.pk
    assert decide(waits, YES, ANN, RecordRedaction()).status == McpApproval.Status.APPROVED
    assert asking.granted(asked(now(http), n=2)) == waits.pk


class Listening(ClientChannel):
    def __init__(self) -> None:
        self.waits = asyncio.Event()

    async def notify(self, method: str, params: dict[str, Any]) -> None:
        if "Waits for an approval" in str(params.get("message")):
            self.waits.set()

    async def send(self, message: bytes) -> None:
        """A sign of life."""


@pytest.mark.parametrize("what", ["service's address", "service's secret", "tool's path"])
def test_a_held_call_whose_yes_came_first_is_not_made_where_it_was_moved(transactional_db: None, what: str) -> None:
    """The yes and the move are both there when the process looks: the call goes to neither place."""
    McpToolApproval.objects.create(tool=McpToolDefinition.objects.get(name=an_http_tool()), policy="always")

    def loaded() -> Configuration:
        return Configuration(catalog=Catalog.load(), additions={SUBJECT: asking.load_policies()})

    def approved_and_moved() -> Configuration:
        row = McpApproval.objects.get()
        decide(row, YES, ANN, RecordRedaction())
        OF_HTTP[what]()
        return loaded()

    async def scenario() -> str:
        async with CallPath() as path:
            path.configuration = await sync_to_async(loaded)()
            channel = Listening()
            exchange = path.exchange(source(None, CALLER), channel=channel, progress_token=1)
            call = asyncio.create_task(path.calls.call_tool(CallRequest(name="pay", arguments={}), exchange))
            await channel.waits.wait()
            path.configuration = await sync_to_async(approved_and_moved)()
            path.calls.stages.one(Approvals).heard((await sync_to_async(McpApproval.objects.get)()).pk)
            return str((await call).wire)

    words = run(scenario)
    assert "changed while" in words


# Replays ---------------------------------------------------------------------------------------------


@pytest.fixture
def past(db: Any) -> str:
    """A tool that is graver by now than in its first version, and has a tag, another name and a toolset."""
    McpToolDefinitionFactory(name="pay", destructive=False, read_only=True, open_world=False)
    McpToolsetFactory(slug="till", patterns="pay")
    tool(destructive=True, read_only=False, open_world=True, meta={"tags": ["money"]}, name="pays")()
    return "pay"


@pytest.mark.parametrize(
    ("applies_to", "target"),
    [
        ("annotation", "destructiveHint"),
        ("annotation", "readOnlyHint=false"),
        ("annotation", "readOnlyHint"),
        ("annotation", "openWorldHint"),
        ("tag", "money"),
        ("tool", "pays"),
        ("toolset", "till"),
        ("all", ""),
    ],
)
def test_a_replay_of_a_past_version_runs_under_the_rules_of_now(past: str, applies_to: str, target: str) -> None:
    McpPolicyRule.objects.create(name="r", applies_to=applies_to, target=target, condition="args.n > 1")
    McpGuardrail.objects.create(name="g", applies_to=applies_to, target=target, detectors="email", action="refuse")
    replayed = Catalog.load_version(past, "1", CALLER)
    assert replayed.version == "1"
    policy = replayed.checks["call_rules"]
    assert isinstance(policy, ToolPolicy)
    assert [rule.name for rule in policy.rules] == ["r"]
    assert "guardrails" in replayed.checks


@pytest.mark.parametrize(
    "condition",
    [
        "args.n > 1 && tool.annotations.destructiveHint",
        "args.n > 1 && !tool.read_only",
        'args.n > 1 && "money" in tool.tags',
    ],
)
def test_a_condition_sees_the_graver_of_the_past_version_and_of_the_present_one(past: str, condition: str) -> None:
    row = McpPolicyRule.objects.create(name="r", condition=condition)
    replayed = Catalog.load_version(past, "1", CALLER)
    policy = replayed.checks["call_rules"]
    assert isinstance(policy, ToolPolicy)
    context = policy.context(replayed, CALLER, Facts(arguments={"n": 2}))
    assert finding(row.compiled(), {**context, "args": {"n": 2}}).holds


def test_a_replay_of_a_version_that_destroyed_nothing_waits_where_the_tool_destroys_by_now(past: str) -> None:
    row = McpToolDefinition.objects.get(name="pays")
    McpToolApproval.objects.create(tool=row, policy="destructive")
    replayed = Catalog.load_version(past, "1", CALLER)
    assert asking.is_demanded(replayed, asking.load_policies(), "never")


def check_void_by_another_sign_in(name: str, row: Any) -> None:
    type(row).objects.filter(pk=row.pk).update(account="shared")
    row.refresh_from_db()
    at = {row.of: row, "issuer": "https://issuer.example.org"}
    issuer = UpstreamRegistration.objects.create(**at, client_id="hub", manner="by_hand")

    def sign_in_as(person: str) -> Edit:
        answer = TokenAnswer(access_token="t", refresh_token="r", scopes=("pay",), expires_in=3600, name=person)
        return lambda: storing.connect(row, "", issuer, answer, Actor("user:1", "olga"))

    sign_in_as("ada")()
    check_void(name, sign_in_as("mallory"))
    event = AuditEvent.objects.filter(kind="account.connected").latest("id")
    assert (event.before["account"], event.after["account"]) == ("ada", "mallory")


def test_another_sign_in_of_a_services_shared_account_voids_approvals(http: str) -> None:
    check_void_by_another_sign_in(http, HttpService.objects.get(slug="bank"))


def test_another_sign_in_of_a_connections_shared_account_voids_approvals(upstream: str) -> None:
    check_void_by_another_sign_in(upstream, McpConnection.objects.get(slug="bank"))
