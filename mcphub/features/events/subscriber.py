"""The caller of a subscription, found again at each delivery: rights of that moment count, not those of the request."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model

from mcphub.features.events.access import Receiver
from mcphub.features.signin.models import Consent
from mcphub.process import runtime
from sessions_app.caller import Caller, Keys, person_of
from sessions_app.protocol.errors import Forbidden, HubError
from tools_catalog.catalog.snapshot import Catalog

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange

_CLIENT = re.compile(r"\(client (\d{1,18})\)$")
"""The end of an allowed client's label, of a client that signed in at this hub."""


@dataclass(frozen=True, slots=True)
class EventSubscriber:
    """The credential and the address of a request."""

    caller: Caller
    toolset: str = ""

    @classmethod
    def of(cls, exchange: McpExchange) -> EventSubscriber:
        return cls(exchange.source.caller, exchange.toolset)

    def receiver(self, catalog: Catalog) -> Receiver | None:
        """Return the receiver with its current rights; None where the credential or the address is over.

        Asks the database.
        """
        caller = _current(self.caller)
        if caller is None:
            return None
        try:
            if self.caller.workspace_slug is not None and caller.workspace is None:
                caller = caller.within(catalog.workspace(self.caller.workspace_slug, caller))
            selection = catalog.toolset(self.toolset, caller) if self.toolset else catalog
        except HubError:
            return None
        if "tools:list" not in caller.scopes or caller.workspace != self.caller.workspace:
            return None
        return Receiver.of(caller, selection)

    @property
    def lasts(self) -> bool:
        """Return True where the hub can find out, at any time, that the credential is over."""
        return self.caller.key_id is not None or bool(_CLIENT.search(self.caller.allowed_client or ""))

    def admitted(self) -> Receiver:
        """Return the receiver for a request that came by no exchange. Raises Forbidden. Asks the database."""
        self.caller.need("tools:list")
        hub = runtime.current()
        receiver = self.receiver(Catalog.load() if hub is None else hub.configuration.catalog)
        if receiver is None:
            raise Forbidden("The key or the account is over. Ask the operator for a new one.")
        return receiver

    def stored(self) -> dict[str, str | int | list[str] | None]:
        """Return it as a row keeps it."""
        caller = self.caller
        return {
            "principal": caller.principal,
            "label": caller.label,
            "key": caller.key_id,
            "client": caller.allowed_client,
            "scopes": sorted(caller.scopes),
            "workspace": caller.workspace,
            "slug": caller.workspace_slug,
            "toolset": self.toolset,
        }

    @classmethod
    def load(cls, stored: Mapping[str, object]) -> EventSubscriber:
        scopes, key, workspace, slug, client = (
            stored[name] for name in ("scopes", "key", "workspace", "slug", "client")
        )
        caller = Caller(
            principal=str(stored["principal"]),
            label=str(stored["label"]),
            scopes=frozenset(scopes if isinstance(scopes, list) else ()),
            key_id=key if isinstance(key, int) else None,
            workspace=workspace if isinstance(workspace, int) else None,
            workspace_slug=slug if isinstance(slug, str) else None,
            allowed_client=client if isinstance(client, str) else None,
        )
        return cls(caller, str(stored["toolset"]))


def _current(caller: Caller) -> Caller | None:
    """Return the caller that the credential makes now; None where it makes none any more."""
    if caller.key_id is not None:
        texts = Keys.read([caller.key_id]).values()
        return next((found for found, ends in texts if ends > time.time()), None)
    if not caller.principal.startswith("user:"):
        return caller
    number = caller.principal.removeprefix("user:")
    person = get_user_model()._default_manager.filter(pk=number, is_active=True).first()
    if person is None:
        return None
    client = _CLIENT.search(caller.allowed_client or "")
    if client is not None and not Consent.objects.filter(user=person, client_id=int(client[1])).exists():
        return None
    return replace(person_of(person), label=caller.label, scopes=caller.scopes, allowed_client=caller.allowed_client)
