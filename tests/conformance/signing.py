"""The hub's accounts at upstreams as the client that the official suite tests: `signing.py URL`, started by the suite.

The suite is server, issuer and person: its issuer sends everybody back at once. So the person's browser is one request,
and whoever is told to connect an account connects it, a few times at most.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import django
import httpx2

from tests import template
from tests.conformance.upstream import TRUSTED, TwentySeconds
from tests.waiting import PATIENCE_SECONDS

DOCUMENT = "https://conformance-test.local/client-metadata.json"
"""Where the suite takes the client's document to be."""
_MOST_SIGN_INS = 4
_SECONDS = PATIENCE_SECONDS


def make_connection(url: str, context: dict[str, Any]) -> Any:
    """Add the connection as an operator enters it: with what the suite says that is registered already."""
    from asgiref.sync import async_to_sync

    from tools_catalog.accounts import signing_in
    from tools_catalog.bindings import origin_of
    from tools_catalog.models import McpConnection, Secret

    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    kind = "client" if "client-credentials" in scenario else "workload" if "wif" in scenario else "shared"
    kind = "jag" if "enterprise" in scenario else kind
    row = McpConnection(slug="suite", transport="streamable-http", url=url, account="shared")
    row.save()
    proof = context.get("client_secret") or context.get("private_key_pem")
    if proof:
        issuer = async_to_sync(signing_in.look)(row, "").issuer
        secret = Secret(
            name="suite", origins=origin_of(issuer), users="connection:suite", places="headers.Authorization body"
        )
        secret.set_value(proof)
        secret.save()
        row.client_id, row.client_secret = context["client_id"], "suite"
    if kind == "workload":
        row.client_id = context["client_id"]
        Path(os.environ["MCPHUB_WORKLOAD_TOKENS"], "suite").write_text(context["valid_jwt"])
    if kind == "jag":
        row.identity = make_identity(context)
    row.account = kind
    row.full_clean()
    row.save()
    return row


def make_identity(context: dict[str, Any]) -> Any:
    """Add the company's issuer as an operator enters it; the person, and who reads lists, have signed in there."""
    from tools_catalog.models import HttpService, UpstreamAccount, UpstreamRegistration

    issuer, client = context["idp_issuer"], context["idp_client_id"]
    service = HttpService(slug="company", url=issuer, issuer=issuer, account="personal", client_id=client)
    service.full_clean()
    service.save()
    told = {"issuer": issuer, "authorization_endpoint": "", "token_endpoint": context["idp_token_endpoint"]}
    registration = UpstreamRegistration.objects.create(
        service=service, issuer=issuer, metadata=told, manner="by_hand", client_id=client
    )
    for principal in ("", "user:1"):
        account = UpstreamAccount(service=service, principal=principal, registration=registration, state="connected")
        account.server, account.kind = issuer, "personal"
        account.access = account.sealed("access", "x")
        account.id_token = account.sealed("id_token", context["idp_id_token"])
        account.save()
    return service


async def sign_in(connection: Any) -> None:
    """Do what a person does: agree on the hub's page, be led to the issuer, come back."""
    from sessions_app.history.events import Actor
    from tools_catalog.accounts import signing_in

    person = Actor("user:1", "person")
    begun = await signing_in.begin(connection, "", person, document_address=DOCUMENT)
    async with httpx2.AsyncClient() as browser:
        response = await browser.get(begun.address)
    print("signed in at", begun.issuer, "for", begun.scopes)
    back = urlsplit(response.headers["location"])
    await signing_in.finish(back.query, person, back.path.partition("/connect/callback/")[2].strip("/"))


async def visit(connection: Any) -> None:
    """List the tools and call each, over one session."""
    from tools_catalog.accounts.resolving import Accounts
    from tools_catalog.call.context import CallInfo, ToolContextParts
    from tools_catalog.upstream.connection import Connection
    from tools_catalog.upstream.link import ConnectionEnvironment, Offer
    from tools_catalog.upstream.listing import TOOL

    accounts = Accounts()
    environment = ConnectionEnvironment(secret=lambda name, to: "", version="1", account=accounts)
    call = CallInfo(
        invocation_id="suite",
        tool_name="suite",
        caller_label="suite",
        caller_principal="user:1",
        client_capabilities={},
    )
    context = ToolContextParts(call=call, deadline=TwentySeconds())
    held = Connection(connection.spec(), environment)
    held.start()
    try:
        await held._up.ready()
        for name in list(held._up.offers[TOOL]):
            params = {"name": name, "arguments": {}}
            print(await held.request("tools/call", params, context, Offer(TOOL, name, TRUSTED)))
            accounts.forget()
            print(await held.request("tools/call", params, context, Offer(TOOL, name, TRUSTED)))
    finally:
        await held.stop()


async def main(url: str) -> int:
    from asgiref.sync import sync_to_async

    from sessions_app.protocol.errors import HubError
    from tools_catalog.accounts.signing_in import FAILURES

    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    connection = await sync_to_async(make_connection)(url, context)
    for _ in range(_MOST_SIGN_INS):
        try:
            async with asyncio.timeout(_SECONDS):
                await visit(connection)
            return 0
        except HubError as error:
            print("the hub says:", error)
            if connection.account in ("client", "workload", "jag") or "refuses" in str(error):
                return 1
        try:
            await sign_in(connection)
        except FAILURES as error:
            print("not signed in:", error)
            return 1
    return 1


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    folder = Path(tempfile.mkdtemp(prefix="mcphub-signing-"))
    os.environ["MCPHUB_DATA_DIR"] = os.environ["MCPHUB_WORKLOAD_TOKENS"] = str(folder)
    os.environ["MCPHUB_EGRESS_ALLOW"] = "127.0.0.1,localhost,::1"
    os.environ["MCPHUB_PUBLIC_URL"] = "http://127.0.0.1:8000"
    template.copy_to(folder / "hub.sqlite3")
    django.setup()
    sys.exit(asyncio.run(main(sys.argv[-1])))
