"""The company of a demo: teams and people, an API, an upstream, rules, a quota and an alert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.contrib.auth.models import Group, User

from mcphub.features.alerts.models import Alert
from mcphub.features.call_rules.models import McpPolicyRule
from mcphub.features.demo.history import CALLERS
from mcphub.features.demo.serving import OFFERED_AT_FIRST, OFFERED_NOW
from mcphub.features.quotas.models import McpQuota
from sessions_app.models import ApiKey, McpWorkspace
from tools_catalog.discovery import reconcile
from tools_catalog.models import HttpService, McpConnection, McpToolDefinition, McpToolset
from tools_catalog.upstream import listing

TOOLSET: Final = "everyday"
IN_TOOLSET: Final = ("add", "current_time")
ASKING: Final = "Box office, chat"
QUOTA: Final = "nightly-report"
RULE: Final = "refunds-over-100"
_AUTHOR: Final = "mcphub demo"
_TEAMS: Final = {
    "sales": ("Sales", "Quotes and orders.", (("mia", "Mia", "Okafor"), ("ben", "Ben", "Larsen"))),
    "service-desk": ("Service desk", "Helps customers.", (("aiko", "Aiko", "Tanaka"), ("paul", "Paul", "Novak"))),
    "platform": ("Platform", "Runs the tools.", (("jon", "Jon", "Weber"), ("lena", "Lena", "Petrova"))),
}
_OWNERS: Final = {"Mia's Claude Desktop": "mia", "Ben's Claude Code": "ben", "Jon's VS Code": "jon"}


def _of(**members: Any) -> dict[str, Any]:
    return {"type": "object", "properties": members, "required": list(members), "additionalProperties": False}


_TEXT: Final = {"type": "string", "minLength": 1}
_API: Final[tuple[tuple[str, str, dict[str, Any], dict[str, Any], bool], ...]] = (
    (
        "billing.get_invoice",
        "Return an invoice by its number.",
        _of(number={**_TEXT, "description": "Such as 2026-0815."}),
        {"method": "GET", "url": "/billing/invoices/{number}"},
        True,
    ),
    (
        "billing.list_orders",
        "List the orders of a customer, newest first.",
        _of(customer={**_TEXT, "description": "The customer's number."}),
        {"method": "GET", "url": "/billing/orders", "query": {"customer": "{customer}"}},
        True,
    ),
    (
        "billing.refund_order",
        "Pay an order back. It cannot be undone.",
        _of(order=_TEXT, amount={"type": "number", "minimum": 0, "description": "In EUR."}),
        {"method": "POST", "url": "/billing/refunds", "body": {"order": "{order}", "amount": "{amount}"}},
        False,
    ),
)


@dataclass(frozen=True, slots=True)
class Company:
    keys: dict[str, ApiKey]
    texts: dict[str, str]
    """The keys' texts, by holder."""


def found(url: str) -> Company:
    """Create all rows. `url` is where the API and the upstream of the demo answer."""
    company = _keys(_people())
    _catalogue(url)
    _rules(company)
    return company


def _people() -> dict[str, User]:
    people = {}
    for slug, (title, about, members) in _TEAMS.items():
        group = Group.objects.create(name=title)
        for username, first, last in members:
            person = User(username=username, first_name=first, last_name=last, email=f"{username}@company.example")
            person.set_unusable_password()
            person.save()
            person.groups.add(group)
            people[username] = person
        workspace = McpWorkspace(slug=slug, title=title, description=about)
        workspace.full_clean()
        workspace.save()
        workspace.members.set([group])
    people["lena"].groups.add(Group.objects.get(name="Auditor"))
    User.objects.filter(username="lena").update(is_staff=True)
    return people


def _keys(people: dict[str, User]) -> Company:
    scopes = ["tools:list", "tools:call"]
    made = {
        caller.holder: ApiKey.issue(caller.holder, scopes=scopes, owner=people.get(_OWNERS.get(caller.holder, "")))
        for caller in CALLERS
    }
    made[ASKING] = ApiKey.issue(ASKING, scopes=[*scopes, "chat"])
    return Company(
        {name: key for name, (key, _text) in made.items()}, {name: text for name, (_key, text) in made.items()}
    )


def _catalogue(url: str) -> None:
    service = HttpService(slug="billing", title="Billing API", url=url)
    service.full_clean()
    service.save()
    for name, about, schema, configuration, is_read in _API:
        _save(
            McpToolDefinition(
                name=name,
                description=about,
                input_schema=schema,
                backend="http",
                configuration={"service": "billing", **configuration},
                read_only=is_read,
                destructive=not is_read,
                timeout_seconds=30.0,
            )
        )
    tracker = McpConnection(
        slug="tracker",
        title="Issue tracker",
        transport="streamable-http",
        url=f"{url}/mcp",
        era=McpConnection.Era.HANDSHAKE,
        policy=McpConnection.Policy.HOLD_ALL,
    )
    tracker.full_clean()
    tracker.save()
    reconcile.reconcile(tracker.pk, {"tool": listing.read(OFFERED_AT_FIRST)})
    for row in tracker.tools.all():
        reconcile.approve(row, author=_AUTHOR, reason="Needed by the service desk")
    reconcile.reconcile(tracker.pk, {"tool": listing.read(OFFERED_NOW)})
    toolset = McpToolset(slug=TOOLSET, title="Everyday tools", description="Sums and the time: what a meeting needs.")
    _save(toolset)
    toolset.tools.set(McpToolDefinition.objects.filter(name__in=IN_TOOLSET))


def _rules(company: Company) -> None:
    asks = {"applies_to": "tool", "target": "billing.refund_order"}
    _save(
        McpPolicyRule(
            name=RULE,
            condition="args.amount > 100",
            effect="ask",
            ask_seconds=30 * 86400,
            words="Refunds over 100 EUR need somebody of the service desk.",
            **asks,
        ),
        McpPolicyRule(
            name="refunds-over-1000",
            condition="args.amount > 1000",
            effect="deny",
            words="Refunds over 1000 EUR are made by finance. Open a ticket there.",
            **asks,
        ),
        McpQuota(
            name=QUOTA,
            per="key",
            key=company.keys["Nightly report"],
            unit="calls",
            period="month",
            soft_limit=18,
            hard_limit=24,
            words="The nightly report has a budget. Ask Jon for more.",
        ),
        Alert(
            name="Orders cannot be listed",
            measure="errors",
            limit=20,
            window_minutes=1440,
            least_calls=5,
            tool=McpToolDefinition.objects.get(name="billing.list_orders"),
        ),
    )


def _save(*rows: Any) -> None:
    for row in rows:
        row.full_clean()
        row.save()
