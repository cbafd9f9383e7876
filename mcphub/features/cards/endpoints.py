"""`<endpoint>/server-card` and `/.well-known/ai-catalog.json`: documents for everybody, pages of any origin included.

Read by routing.py.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from mcphub.features.cards.documents import SUFFIX, DiscoveryDocument, DiscoveryDocuments
from mcphub.transports.base import JSON, Headers, HubConsumer
from sessions_app.endpoints import MAIN
from tools_catalog.catalog.snapshot import Catalog

Application = Callable[[Any, Any, Any], Awaitable[None]]

_CACHE = (b"cache-control", b"public, max-age=3600")
_NO_CACHE = (b"cache-control", b"no-store")
_OPEN = (
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"Content-Type, If-None-Match"),
    (b"access-control-expose-headers", b"ETag"),
)
_TAG = re.compile(r'(?:W/)?("[^"]*")')


_MISSING = b'{"error":"not_found","message":"No server card is published at this address."}'
"""For a hidden endpoint as for one that does not exist."""


class _Kept:
    """The documents of the newest catalogue."""

    documents: ClassVar[DiscoveryDocuments | None] = None

    @classmethod
    def of(cls, catalog: Catalog) -> DiscoveryDocuments:
        if cls.documents is None or cls.documents.catalog is not catalog:
            cls.documents = DiscoveryDocuments(catalog)
        return cls.documents


class _DocumentEndpoint(HubConsumer):
    """Serves one document, whole or as unchanged."""

    allowed_methods = ("GET", "HEAD", "OPTIONS")
    needs_caller = False

    def document(self, documents: DiscoveryDocuments) -> DiscoveryDocument | None:
        raise NotImplementedError

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        # Pages of every origin may read: the documents are public, and nothing can be called here.
        headers = [(name, value) for name, value in scope["headers"] if name != b"origin"]
        await super().__call__({**scope, "headers": headers}, receive, send)

    async def handle(self) -> None:
        if self.scope["method"] == "OPTIONS":
            await self.respond(204, b"", ((b"access-control-max-age", b"86400"),))
            return
        document = self.document(_Kept.of(self.configuration.catalog))
        if document is None:
            await self.respond(404, _MISSING)
            return
        headers = ((b"etag", document.tag.encode()), _CACHE)
        if document.tag in self._known():
            await self.respond(304, b"", headers)
        else:
            await self.respond(200, document.body, ((b"content-type", document.media_type.encode()), *headers))

    def _known(self) -> Any:
        """Return the entity tags that the client has (RFC 9110, If-None-Match: compared weakly)."""
        sent = [value.decode("latin-1") for name, value in self.scope["headers"] if name == b"if-none-match"]
        return _Every() if any(value.strip() == "*" for value in sent) else _TAG.findall(",".join(sent))

    async def respond(self, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
        given = (*headers, *_OPEN)
        if status >= 400:
            given = (*given, _NO_CACHE)
        if self.scope["method"] != "HEAD" and status not in (204, 304):
            await super().respond(status, body, given)
            return
        self.has_begun = True
        if status not in (204, 304):
            given = (*given, (b"content-length", b"%d" % len(body)))
        await self._send({"type": "http.response.start", "status": status, "headers": list(given)})
        await self._send({"type": "http.response.body", "body": b""})


class _Every:
    def __contains__(self, tag: str) -> bool:
        return True


class CardEndpoint(_DocumentEndpoint):
    def document(self, documents: DiscoveryDocuments) -> DiscoveryDocument | None:
        return documents.card(self.toolset, self.headers.host)


class CatalogEndpoint(_DocumentEndpoint):
    def document(self, documents: DiscoveryDocuments) -> DiscoveryDocument | None:
        return documents.listing(self.headers.host)


CONSUMERS: dict[str, Application] = {
    MAIN + SUFFIX: CardEndpoint.as_asgi(),
    "/.well-known/ai-catalog.json": CatalogEndpoint.as_asgi(),
}
PREFIXES: tuple[tuple[str, Application], ...] = ()
ROOTS: tuple[str, ...] = ()
AT_TOOLSET: dict[str, Application] = {SUFFIX: CardEndpoint.as_asgi()}
