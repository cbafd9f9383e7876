"""Kinds of offers of upstreams that features add to tools, resources and prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from sessions_app.kit.features import declared, loaded
from tools_catalog.upstream.further import ReadOffers
from tools_catalog.upstream.listing import OfferKind

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User
    from django.db.models import QuerySet

    from tools_catalog.models.upstream import McpConnection
    from tools_catalog.models.upstream_tools import McpUpstreamTool


class FurtherOffers(Protocol):
    """The feature's part in discovery and approval; rows, decisions and their pages are those of all offers."""

    read: ReadOffers
    """Reads the offers with the account for lists."""
    read_shown: ReadOffers
    """Reads the list of a person's account, for names and digests alone: nothing of it becomes an offer."""

    def public_name(self, connection: McpConnection, upstream_name: str) -> str:
        """Return the name that it has here."""
        ...

    def refusal_of(self, row: McpUpstreamTool) -> str:
        """Return the reason if the offer cannot be made available; empty otherwise."""
        ...

    def rows_of(self, connection: McpConnection) -> QuerySet[Any]:
        """Return the rows that offers of a connection became."""
        ...

    def served(self, row: McpUpstreamTool) -> Any:
        """Return the row that it became, which has a `name` or `uri`; None before its approval."""
        ...

    def serve(self, row: McpUpstreamTool, *, author: User | AnonymousUser | str | None, reason: str) -> Any:
        """Make or change that row, within the transaction of the approval. Raises ValidationError."""
        ...

    def warnings(self, row: McpUpstreamTool) -> dict[str, int]:
        """Return the detectors' findings in the offer as last seen: kind and count."""
        ...

    def texts(self, row: McpUpstreamTool) -> tuple[dict[str, object], dict[str, object]]:
        """Return the texts behind the definition by their names, as approved and as offered now."""
        ...


def handler_of(kind: str) -> FurtherOffers | None:
    """Return what handles a kind; None for the core's own, and where its feature is switched off."""
    for part in declared(OfferKind):
        if part.name == kind:
            found: FurtherOffers = loaded(part.handler)
            return found
    return None


def handlers() -> list[FurtherOffers]:
    return [loaded(part.handler) for part in declared(OfferKind)]


def personal_readers() -> Mapping[str, ReadOffers]:
    """Return the readers of each kind for accounts of persons."""
    return {part.name: loaded(part.handler).read_shown for part in declared(OfferKind)}


def readers() -> Mapping[str, ReadOffers]:
    """Return what reads the offers of each kind at an upstream."""
    return {part.name: loaded(part.handler).read for part in declared(OfferKind)}
