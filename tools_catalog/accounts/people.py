"""Ownership of accounts: the right to connect each, and the link to the page for the person of a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from django.core import signing
from django.db.models import Q
from django.utils.translation import gettext as _

from sessions_app import endpoints
from sessions_app.workspaces.models import open_to
from tools_catalog.accounts.storing import AccountAt
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Url
from tools_catalog.filters import tools_of
from tools_catalog.models.accounts import SHARED
from tools_catalog.models.services import HttpService
from tools_catalog.models.upstream import McpConnection
from tools_catalog.models.upstream_tools import McpUpstreamTool
from tools_catalog.upstream.account import AccountNeeded
from tools_catalog.upstream.spec import PERSONAL_ACCOUNT, SHARED_ACCOUNT

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

PAGES: Final = {"connection": "/connect/to/", "service": "/connect/service/"}
LINK_SECONDS: Final = 900
"""For a person to open the address that a call gave."""
_SALT: Final = "mcphub connect"


class LinkRefused(Exception):
    """The address of a call is too old, changed, or was made for somebody else."""


def principal_of(user: User | AnonymousUser) -> str:
    return f"user:{user.pk}"


def account_of(place: AccountAt, user: User | AnonymousUser, *, is_for_all: bool) -> str | None:
    """Return the principal of the account that the person may connect here; None where he may connect none."""
    runs_it = user.has_perm(f"tools_catalog.change_{place._meta.model_name}")
    # The lists of a service are the hub's own, so nobody's account reads them; but one may vouch for who reads others.
    reads_lists = (
        place.account == PERSONAL_ACCOUNT
        and is_for_all
        and (isinstance(place, McpConnection) or place.vouches_for.exists())
    )
    if place.account == SHARED_ACCOUNT or reads_lists:
        return SHARED if runs_it else None
    if place.account != PERSONAL_ACCOUNT or not place.enabled:
        return None
    may_call = _may_call_service if isinstance(place, HttpService) else _may_call
    return principal_of(user) if runs_it or may_call(place, user) else None


def _may_call_service(place: Any, user: Any) -> bool:
    """Return whether the person has a tool of the service, or of a connection that it identifies people for."""
    groups = user.groups.values_list("pk", flat=True)
    is_open = open_to(groups)
    if tools_of(place.slug).filter(is_open, enabled=True).exists():
        return True
    return any(_may_call(connection, user) for connection in place.vouches_for.filter(enabled=True))


def _may_call(connection: Any, user: Any) -> bool:
    """Return whether something that is served of the connection is there for this person."""
    groups = user.groups.values_list("pk", flat=True)
    offers = McpUpstreamTool.objects.filter(connection=connection)
    seen = Q()
    for served in ("tool", "resource", "prompt"):
        seen |= Q(**{f"{served}__isnull": False, f"{served}__enabled": True}) & open_to(groups, f"{served}__")
    return offers.filter(seen).exists()


def address_for(slug: str, principal: str, elicitation_id: str = "", of: str = McpConnection.of) -> str:
    """Return the absolute address where this person, and nobody else, connects the account."""
    told = signing.dumps({"to": f"{of} {slug}", "of": principal, "id": elicitation_id}, salt=_SALT, compress=True)
    return f"{endpoints.issuer()}{PAGES[of]}{slug}/?link={told}"


def elicitation_of(link: str, place: AccountAt, principal: str) -> str:
    """Return the id of the call that the address belongs to. Raises LinkRefused."""
    try:
        told = signing.loads(link[:2000], salt=_SALT, max_age=LINK_SECONDS)
    except signing.SignatureExpired as error:
        raise LinkRefused(_("This link has expired after 15 minutes. Call the tool again.")) from error
    except signing.BadSignature as error:
        raise LinkRefused(_("This link was altered. Call the tool again.")) from error
    if told["to"] != f"{place.of} {place.slug}" or told["of"] != principal:
        raise LinkRefused(_("This link was created for somebody else. Call the tool yourself."))
    return str(told["id"])


async def ask_person(needed: AccountNeeded, context: ToolContext) -> None:
    """Lead the person of a call to the page, in the way of the call's era; comes back where nobody can be led.

    A stateless client is asked to open the address and calls again, one of 2025-11-25 gets -32042; any other gets the
    error itself, which then holds the address. Raises as `input.require`.
    """
    slug = needed.slug
    if not needed.principal or needed.principal != context.call.caller_principal:
        return
    own_id = context.input.elicitation_id(
        f"mcphub/connect {slug}" if needed.of == McpConnection.of else f"mcphub/connect {needed.of} {slug}"
    )
    address = address_for(slug, needed.principal, own_id, needed.of)
    words = f"{needed.message} Open {address} and sign in; then call again."
    question = Url(f"Connect your account at {slug} to this hub.", address, own_id)
    needed.message = words
    needed.args = (words,)
    if context.input.can_ask(question):
        context.suspension.resume_with("")
        await context.input.require({"mcphub_connect": question})
