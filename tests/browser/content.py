"""A hub in use for the pictures of the console: tools, offers, approvals, keys, calls, an archive and a review."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.utils import timezone

from invocations.chain import service
from mcphub.features.access_review import deciding
from mcphub.features.access_review.models import AccessReview
from mcphub.features.approvals.models import McpApproval
from mcphub.features.archive.writing import Archiver
from mcphub.features.login.models import LoginProvider
from sessions_app.kit.database import Dedicated
from sessions_app.models import ApiKey
from tests.rigs import seeding
from tests.tools_catalog.proposals import definition, offer
from tools_catalog.discovery import reconcile
from tools_catalog.models import McpConnection, McpToolDefinition


def let_operator_in(password: str) -> None:
    _operator(password)


PEOPLE = {"auditor": ["Auditor"], "member": []}
"""Name of each person beside the operator -> their groups."""


def fill(password: str) -> None:
    person = _operator(password)
    for name, groups in PEOPLE.items():
        one = User.objects.create_user(name, password=password, is_staff=bool(groups))
        one.groups.set(Group.objects.filter(name__in=groups))
    _providers()
    made = [
        ("search_issues", "Find issues", "Finds issues of a project by words.", _schema(query="Words to look for.")),
        ("get_invoice", "Get an invoice", "Gives one invoice with its lines.", _schema(number="Such as 2026-0815.")),
        (
            "create_ticket",
            "Open a ticket",
            "Opens a ticket for the service desk.",
            _schema(subject="One line.", text="What happened."),
        ),
        (
            "list_orders",
            "List orders",
            "Gives the orders of a customer, newest first.",
            _schema(customer="Customer number."),
        ),
        (
            "delete_draft",
            "Delete a draft",
            "Deletes a draft. It cannot be brought back.",
            _schema(id="Id of the draft."),
        ),
    ]
    for name, title, words, takes in made:
        McpToolDefinition.objects.create(
            name=name,
            title=title,
            description=words,
            input_schema=takes,
            backend="http",
            configuration={"url": "https://desk.example.com/api/" + name},
            read_only=name.startswith(("get", "list", "search")),
            destructive=name.startswith("delete"),
        )
    connection = McpConnection.objects.create(
        slug="tracker",
        title="Issue tracker",
        transport="streamable-http",
        url="https://tracker.example.com/mcp",
        enabled=False,
        policy="hold_all",
    )
    first = definition("find_bugs", description="Find bugs by words.", inputSchema=_schema(query="Words."))
    offer(connection, first)
    for row in connection.tools.all():
        reconcile.approve(row, author=person, reason="Needed by the service desk")
    offer(
        connection,
        {**first, "description": "Find bugs by words, in all projects. Also reads closed ones."},
        definition("close_bug", description="Close a bug.", inputSchema=_schema(id="Id of the bug.")),
    )
    now = timezone.now()
    McpApproval.objects.create(
        id="mcpr_7f3a",
        principal="key:2",
        caller_label="Service desk assistant",
        turn_id="t",
        call_id="call_1",
        tool_name="delete_draft",
        tool_version="1",
        arguments={"id": "draft-118"},
        binding="0" * 64,
        created_at=now,
        expires_at=now + timedelta(hours=1),
    )
    keys = ("Service desk assistant", ["tools:list", "tools:call", "chat"]), ("Nightly report", ["audit:read"])
    for name, scopes in keys:
        ApiKey.issue(name, scopes=scopes, expires_at=now + timedelta(days=60))
    seeding.calls(1500, [name for name, *_ in made] + ["echo", "add"], days=2)
    seeding.seal()
    _archive()
    _review(person)


def offer_changes(count: int) -> None:
    """Have an upstream describe so many approved tools otherwise."""
    connection = McpConnection.objects.create(
        slug="shop", transport="streamable-http", url="https://shop.example.com/mcp", enabled=False, policy="hold_all"
    )
    told = [definition(f"order_{number}", description=f"Order {number}.") for number in range(count)]
    offer(connection, *told)
    for row in connection.tools.all():
        reconcile.approve(row, author=None, reason="")
    offer(connection, *({**each, "description": "Order, and pay at once."} for each in told))


PROVIDERS: dict[str, dict[str, str]] = {
    "Google": {
        "issuer": "https://accounts.google.com",
        "client_id": "1234567890-abc.apps.googleusercontent.com",
        "scopes": "openid profile email",
        "username_claim": "email",
    },
    "Keycloak": {"issuer": "https://login.example/realms/staff", "client_id": "mcp-hub", "groups_claim": "groups"},
    "Entra ID": {
        "issuer": "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0",
        "client_id": "66666666-7777-8888-9999-000000000000",
        "groups_claim": "roles",
    },
    "Okta": {
        "issuer": "https://example.okta.com",
        "client_id": "0oa1example2client3id",
        "scopes": "openid profile email groups",
        "groups_claim": "groups",
    },
}
"""The recipes of docs/secure/access.md, filled in."""


def _providers() -> None:
    for name, fields in PROVIDERS.items():
        row = LoginProvider(name=name, slug=name.lower().replace(" ", "-"), **fields)
        if "groups_claim" in fields:
            row.groups, row.admits = {"mcp-admins": ["Operator"], "mcp-readers": ["Viewer"]}, "mapped"
        row.set_secret("a secret that nobody knows")
        row.full_clean()
        row.save()


def _archive() -> None:
    """Archive the sealed rows, as if their month had ended."""
    database, keys = Dedicated(), service.keys()
    end = datetime.now(UTC) + timedelta(days=40)
    archiver = Archiver(service.log_of(database), keys, keys.signer(), settings.MCPHUB_ARCHIVE_DIR, now=lambda: end)
    assert list(archiver.run())
    database.close()


def _review(reviewer: User) -> None:
    """Start a review of the access of four people and the keys, some of it unused."""
    desk = Group.objects.create(name="Service desk")
    McpToolDefinition.objects.get(name="create_ticket").groups.add(desk)
    for name, days in (("anna", 3), ("boris", 130), ("olga", 10), ("pavel", 200)):
        person = User.objects.create_user(name, date_joined=timezone.now() - timedelta(days=days))
        person.groups.add(desk)
    review = AccessReview(name="Fourth quarter", due_at=timezone.now() + timedelta(days=21))
    deciding.start(review, [reviewer], reviewer)
    deciding.decide(review, [review.rows.filter(label="anna").first()], "keep", "", reviewer)


def _operator(password: str) -> User:
    person = User.objects.filter(username="operator").first() or User(username="operator")
    person.is_staff = person.is_superuser = True
    person.set_password(password)
    person.save()
    return person


def _schema(**properties: str) -> dict[str, Any]:
    described = {name: {"type": "string", "description": words} for name, words in properties.items()}
    return {"type": "object", "properties": described, "required": list(properties)}
