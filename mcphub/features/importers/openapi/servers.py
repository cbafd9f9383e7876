"""Where the API of an OpenAPI document is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urljoin, urlsplit

from mcphub.features.importers.candidates import words
from mcphub.features.importers.openapi.inlining import OperationRefused
from sessions_app.protocol.json import Json


class Servers:
    """The one address that all operations share, as a service has one."""

    def __init__(self, document: dict[str, Json], source: str) -> None:
        """`source` is the address of the document, if it has one; raises DocumentRefused."""
        self._source = source
        self._given = next(_addresses(document), "")
        self.url = self._whole(self._given)
        self.note = ""
        """A note on the address for the operator."""
        if not self.url and self._given.strip("/"):
            self.note = (
                f"The document says only the end of the API's address: {self._given[:100]}. "
                "The address of the service has to have it."
            )
        elif not self.url:
            self.note = "The document names no server: the service needs an address."

    def check(self, *holders: object) -> None:
        """Raise OperationRefused where an operation has another address; of `holders` the last counts most."""
        for holder in reversed(holders):
            given = _address(holder)
            if given is not None:
                if self._compared(given) != self._compared(self._given):
                    raise OperationRefused(f"It is served at another address, {given[:100]}, than the service.")
                return

    def _compared(self, url: str) -> str:
        """Return an address in comparable form; without the scheme if the document leaves it open."""
        whole = self._whole(url) or url.rstrip("/")
        is_open = self._given.startswith("//") and not self._source
        return "//" + whole.partition("//")[2] if is_open and "//" in whole else whole

    def _whole(self, url: str) -> str:
        try:
            if url.startswith("//"):  # on the scheme of the document itself, which a file has not
                return f"{urlsplit(self._source).scheme}:{url}".rstrip("/") if self._source else ""
            if not urlsplit(url).netloc:
                url = urljoin(self._source, url) if self._source else ""
        except ValueError as error:
            raise OperationRefused(f"The address of its server is none: {url[:100]!r}.") from error
        return url.rstrip("/")


def _addresses(document: dict[str, Json]) -> Iterator[str]:
    """Return the document's own address, or where it has none those of its paths."""
    yield from (each for each in [_address(document)] if each is not None)
    paths = document.get("paths")
    for item in paths.values() if isinstance(paths, dict) else ():
        for holder in (item, *(item.values() if isinstance(item, dict) else ())):
            yield from (each for each in [_address(holder)] if each is not None)


def _address(holder: object) -> str | None:
    """Return the address of the first server, its variables filled in."""
    servers = holder.get("servers") if isinstance(holder, dict) else None
    if not isinstance(servers, list) or not servers or not isinstance(servers[0], dict):
        return None
    url = words(servers[0].get("url"))
    variables = servers[0].get("variables")
    for name, variable in variables.items() if isinstance(variables, dict) else ():
        default = variable.get("default") if isinstance(variable, dict) else None
        url = url.replace(f"{{{name}}}", str(default or ""))
    return url
