"""Every address of the hub's Django, from the URL configuration, each filled in with a row that is there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.contrib import admin
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

import mcphub.urls  # noqa: F401 - registers the pages of the admin
from invocations.chain.models import AuditHold
from invocations.models import McpRedactionRule
from mcphub.features.approvals.models import McpApproval, McpToolApproval
from mcphub.features.audit_export.models import ShippingTarget
from mcphub.features.call_examples.models import ToolExamples
from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.chat.models import ChatKey, ChatModel, ChatModelPrice, ChatProvider, ChatSession, Query
from mcphub.features.events.models import UpstreamEvent
from mcphub.features.fitting.models import ResultSize
from mcphub.features.guardrails.models import McpGuardrail
from mcphub.features.login.invitations import invite
from mcphub.features.login.models import LinkedIdentity, LoginProvider, SecondFactor
from mcphub.features.quotas.models import McpQuota
from mcphub.features.signin.models import Issuer
from mcphub.features.skills import contents
from mcphub.features.skills.models import Skill
from sessions_app.history.reading import history_of
from sessions_app.models import RateLimitBucket, WaitingChange
from tests import factories as make
from tools_catalog.models import AllowedHost, HttpService, McpToolset, Secret, UpstreamAccount


def patterns(under: Any = None, before: str = "") -> Iterator[str]:
    """Return every pattern of the URL configuration."""
    for each in get_resolver().url_patterns if under is None else under:
        if isinstance(each, URLResolver):
            yield from patterns(each.url_patterns, before + str(each.pattern))
        elif isinstance(each, URLPattern):
            yield before + str(each.pattern)


def address(pattern: str, rows: Mapping[str, Any]) -> str:
    """Fill a pattern in: with the row of its model where there is one. `rows` is by `app_model`."""
    found = re.match(r"admin/(\w+)/(\w+)/", pattern)
    row = rows.get("_".join(found.groups())) if found else None
    entry = history_of(row).first() if row is not None and "/history/" in pattern else None
    names = {
        "name": "result" if "/body/" in pattern else "echo",
        "number": str(entry.pk) if entry else "1",
        "slug": "none",
        "app_label": "auth",
        "invocation_id": "none",
        "internal_code": "timeout",
        "size": "1",
        "old": "1",
        "new": "1",
        "url": "nowhere",
        "content_type_id": "1",
    }
    key = str(row.pk) if row is not None else "1"
    return filled(pattern, lambda name: names.get(name, key))


def filled(pattern: str, value: Callable[[str], str]) -> str:
    """Return the address that a pattern makes with the value of each of its parameters, by name."""
    plain = re.sub(r"\(\?P(<\w+>)[^)]*\)", r"\1", pattern)
    return "/" + re.sub(r"<(?:\w+:)?(\w+)>", lambda found: value(found[1]), plain).replace("^", "").replace(
        "/?$", "/"
    ).replace("$", "")


def one_of_each() -> dict[str, Any]:
    """Return the newest row of each model that the admin shows, by `app_model`; make those that can be made."""
    rows = {}
    for model in admin.site._registry:
        name = f"{model._meta.app_label}_{model._meta.model_name}"
        row = model._default_manager.order_by("-pk").first()
        if row is None and name in _MADE:
            row = _MADE[name]()
        if row is not None:
            rows[name] = row
    return rows


def _secret() -> Secret:
    secret = Secret(name="TOKEN", origins="api.example.org")
    secret.set_value("a secret of some length")
    secret.save()
    return secret


def _offer() -> Any:
    from tests.tools_catalog.proposals import proposal

    return proposal()


def _provider() -> ChatProvider:
    return ChatProvider.objects.first() or ChatProvider.objects.create(
        slug="mine", kind="compatible", base_url="https://llm.example.org/v1"
    )


def _issuer() -> Issuer:
    return Issuer.objects.first() or Issuer.objects.create(name="work", issuer="http://127.0.0.1:9")


def _conversation() -> ChatSession:
    now = timezone.now()
    return ChatSession.objects.first() or ChatSession.objects.create(
        principal="key:1", expires_at=now + timedelta(hours=1), ends_at=now + timedelta(days=1)
    )


def _login_provider() -> LoginProvider:
    return LoginProvider.objects.create(name="Firm", slug="firm", issuer="https://login.example", client_id="hub")


def _linked_identity() -> LinkedIdentity:
    return LinkedIdentity.make(make.UserFactory(), "https://login.example", "1", "Firm")


def _skill() -> Skill:
    row = Skill(path="greeting")
    row.take(contents.of_text("---\nname: greeting\ndescription: How to greet.\n---\n"))
    row.save()
    return row


def _approval() -> McpApproval:
    now = timezone.now()
    return McpApproval.objects.create(
        id="mcpr_1",
        principal="key:1",
        caller_label="an app",
        turn_id="t",
        call_id="call_1",
        tool_name="drop_table",
        tool_version="1",
        arguments={"table": "customers"},
        binding="0" * 64,
        created_at=now,
        expires_at=now + timedelta(days=1),
    )


def _waiting_change() -> WaitingChange:
    tool = _tool()
    return WaitingChange.objects.create(
        subject_model="tools_catalog.mcptooldefinition",
        subject_id=str(tool.pk),
        subject_label=tool.name,
        before={"destructive": True},
        after={"destructive": False},
        via="rest",
        proposed_by="key:1",
    )


def _tool() -> Any:
    from tools_catalog.models import McpToolDefinition

    return McpToolDefinition.objects.order_by("-pk").first() or make.McpToolDefinitionFactory()


_MADE: dict[str, Callable[[], Any]] = {
    "signin_issuer": _issuer,
    "auth_group": make.GroupFactory,
    "auth_user": make.UserFactory,
    "login_loginprovider": _login_provider,
    "login_linkedidentity": _linked_identity,
    "login_invitation": lambda: invite("guest", "", [], 7)[0],
    "login_secondfactor": lambda: SecondFactor.objects.create(user=make.UserFactory(), kind="app"),
    "sessions_app_apikey": make.ApiKeyFactory,
    "sessions_app_mcpsession": make.McpSessionFactory,
    "sessions_app_serverprocess": make.ServerProcessFactory,
    "sessions_app_ratelimitbucket": lambda: RateLimitBucket.objects.create(
        client_id="key:1", tokens=3, refill_per_second=1, last_refill=timezone.now()
    ),
    "sessions_app_waitingchange": _waiting_change,
    "tools_catalog_mcptooldefinition": _tool,
    "tools_catalog_mcpconnection": make.McpConnectionFactory,
    "tools_catalog_upstreamaccount": lambda: UpstreamAccount.objects.create(
        connection=make.McpConnectionFactory(), principal="user:1"
    ),
    "tools_catalog_launchprofile": make.LaunchProfileFactory,
    "tools_catalog_mcpupstreamtool": _offer,
    "tools_catalog_secret": _secret,
    "tools_catalog_httpservice": lambda: HttpService.objects.create(slug="git", url="https://git.example.org/rest"),
    "tools_catalog_mcppolicyrule": lambda: McpPolicyRule.objects.create(name="watcher", watching=True),
    "tools_catalog_allowedhost": lambda: AllowedHost.objects.create(host="10.0.0.7"),
    "tools_catalog_mcpguardrail": lambda: McpGuardrail.objects.create(name="flag", detectors="hidden", watching=True),
    "tools_catalog_mcptoolset": lambda: McpToolset.objects.create(slug="few", patterns="e*"),
    "tools_catalog_mcpresource": make.McpResourceFactory,
    "tools_catalog_mcpprompt": make.McpPromptFactory,
    "invocations_mcptoolinvocation": lambda: make.McpToolInvocationFactory(failed=True),
    "invocations_mcprequestenvelope": make.McpRequestEnvelopeFactory,
    "invocations_mcptask": lambda: make.McpTaskFactory(over=True),
    "invocations_errorgroup": make.ErrorGroupFactory,
    "invocations_mcpredactionrule": lambda: McpRedactionRule.objects.create(place="$.a"),
    "invocations_audithold": lambda: AuditHold.objects.create(name="case", reason="court", principal="key:9"),
    "invocations_shippingtarget": lambda: ShippingTarget.objects.create(name="siem", kind="folder", address="siem"),
    "chat_chatprovider": _provider,
    "chat_chatmodelprice": lambda: ChatModelPrice.objects.create(
        provider=_provider(), name="p", model="m", input_millionths=1, output_millionths=2
    ),
    "chat_chatmodel": lambda: ChatModel.objects.create(provider=_provider(), name="m"),
    "chat_chatkey": lambda: ChatKey.objects.create(key=make.ApiKeyFactory(scopes=["chat"])),
    "chat_chatsession": _conversation,
    "chat_query": lambda: Query.objects.create(
        session=_conversation(),
        content="Is it warm?",
        principal="key:1",
        entry_point="query",
        state="done",
        process_id="p",
    ),
    "invocations_mcpapproval": _approval,
    "invocations_mcpquota": lambda: McpQuota.objects.create(name="few", hard_limit=5, enabled=False),
    "skills_skill": _skill,
    "events_upstreamevent": lambda: UpstreamEvent.objects.create(
        connection=make.McpConnectionFactory(), name_there="paid", name="shop/paid", offered={"name": "paid"}
    ),
    "call_examples_toolexamples": lambda: ToolExamples.objects.create(tool=_tool(), examples="Find a bed"),
    "fitting_resultsize": lambda: ResultSize.objects.create(tool=_tool(), most_characters=4000),
    "invocations_mcptoolapproval": lambda: McpToolApproval.objects.create(tool=_tool()),
}
"""Makes a row where there is none. What only the hub itself writes (blocks, events, tombstones) is not made here."""
