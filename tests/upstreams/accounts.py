"""People who connect accounts at an upstream by hand: no browser, a client that keeps cookies and follows nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx2

from tests.servers import Hub, kill_processes
from tests.waiting import PATIENCE_SECONDS
from tests.wire.signing_in import Person, csrf_of

_MOST_STEPS = 8

# In the process beside the hub ------------------------------------------------------------------------


def make_operator(name: str) -> None:
    """Let a person do everything in the console."""
    from django.contrib.auth.models import User

    User.objects.filter(username=name).update(is_staff=True, is_superuser=True)


def add(slug: str, url: str, account: str, **words: Any) -> None:
    from tools_catalog.models import McpConnection

    kept = {"policy": "trust", "idle_seconds": 0, **words}
    row = McpConnection(slug=slug, transport="streamable-http", url=url, account=account, **kept)
    row.full_clean()
    row.save()


def approve_tools(slug: str) -> int:
    """Approve the tools and reject the rest: of a resource that two connections have the hub serves one."""
    from django.contrib.auth.models import User

    from tools_catalog.discovery import reconcile
    from tools_catalog.models import McpUpstreamTool

    offers = McpUpstreamTool.objects.filter(connection__slug=slug, kind="tool")
    for offer in offers:
        reconcile.approve(offer, author=User.objects.first(), reason="test")
    for offer in McpUpstreamTool.objects.filter(connection__slug=slug).exclude(kind="tool"):
        reconcile.reject(offer, author=User.objects.first())
    return len(offers)


def state(slug: str) -> dict[str, Any]:
    """Return how a connection and its accounts stand, as rows say it."""
    from tools_catalog.models import McpConnection

    row = McpConnection.objects.get(slug=slug)
    return {
        "status": row.status,
        "error": row.error_message,
        "tools": sorted(tool.upstream_name for tool in row.tools.filter(state="approved")),
        "accounts": {
            account.principal: {"state": account.state, "scopes": account.scopes, "failure": account.failure}
            for account in row.accounts.all()
        },
    }


def age_tokens(slug: str) -> int:
    """Let all tokens of a connection end now, as far as the hub knows."""
    from django.utils import timezone

    from tools_catalog.models import UpstreamAccount

    return int(UpstreamAccount.objects.filter(connection__slug=slug).update(expires_at=timezone.now()))


def events_of(slug: str) -> list[str]:
    from sessions_app.history.models import AuditEvent

    return list(
        AuditEvent.objects.filter(subject_label=slug, kind__startswith="account.")
        .order_by("pk")
        .values_list("kind", flat=True)
    )


# Browsers ---------------------------------------------------------------------------------------------


def led_to_issuer(person: Person, address: str) -> str:
    """Open the hub's page, press its button, give the issuer's address."""
    path = _path(address)
    page = person.http.get(path)
    assert page.status_code == 200, (page.status_code, page.text)
    answer = person.http.post(path, data={"csrfmiddlewaretoken": csrf_of(page)})
    assert answer.status_code == 302, (answer.status_code, answer.text)
    return str(answer.headers["location"])


def signed_in(issuer_address: str, subject: str) -> str:
    """Sign in there as somebody, give the address that the browser is sent back to."""
    address = issuer_address
    with httpx2.Client(follow_redirects=False, timeout=PATIENCE_SECONDS) as browser:
        for _ in range(_MOST_STEPS):
            if "/login?sign_in=" in address:
                address = f"{address}&as={subject}"
            answer = browser.get(address)
            assert answer.is_redirect, (address, answer.status_code, answer.text)
            address = urljoin(address, answer.headers["location"])
            if "/connect/callback/" in address:
                return address
    raise AssertionError(f"the issuer never leads back: {address}")


def connect(person: Person, address: str, subject: str) -> httpx2.Response:
    """Connect an account by the address of the hub's page; give the page after it. Each worker knows the account."""
    back = signed_in(led_to_issuer(person, address), subject)
    answer = person.http.get(_path(back))
    assert answer.status_code == 302, (answer.status_code, answer.text)
    person.hub.settle()
    return person.http.get(answer.headers["location"])


def control(url: str, **behaviour: Any) -> dict[str, int]:
    """Change how the peer behaves; give what it counted."""
    parts = urlsplit(url)
    counted: dict[str, int] = httpx2.post(
        f"{parts.scheme}://{parts.netloc}/control", json=behaviour, timeout=PATIENCE_SECONDS
    ).json()
    return counted


def hub_url(hub: Hub) -> Hub:
    """Let a hub that is not started yet say its own address."""
    hub.environment["MCPHUB_PUBLIC_URL"] = hub.url
    return hub


def kill_workers(hub: Hub, most: int = 100) -> int:
    """Kill workers of a hub, as a crash would; give how many. Others are started in their place."""
    children = Path(f"/proc/{hub.pid}/task/{hub.pid}/children").read_text().split()
    workers = [pid for pid in children if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    kill_processes([int(pid) for pid in workers[:most]])
    return len(workers[:most])


def _path(address: str) -> str:
    parts = urlsplit(address)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path
