"""The questions that one connection may ask the clients of its calls; checked and named on their way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sessions_app.protocol import directions, errors
from tools_catalog.call.base import Json
from tools_catalog.upstream.credential_fields import credential_field

ELICITATION, SAMPLING, ROOTS = "elicitation/create", "sampling/createMessage", "roots/list"
ASKED_BY: Final = "mcphub/connection"
"""In `_meta` of requests with words for a model, or without words."""
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """As the operator of the connection has it."""

    connection: str = ""
    elicits: bool = True
    """It may show forms and addresses to the calling person."""
    asks_secrets: bool = False
    """Also forms for passwords and the like."""
    samples: bool = False
    """It may have the client's model answer."""
    lists_roots: bool = False
    """It may ask which folders the client works in."""
    extensions: frozenset[str] = frozenset()
    """Names of vendors' extensions that it may learn from the client."""
    opens_loopback: bool = False
    """It may lead a person to http on the person's own machine, as in development."""

    def __bool__(self) -> bool:
        return self.elicits or self.samples or self.lists_roots or bool(self.extensions)

    def checked(self, method: str, params: Mapping[str, Json]) -> dict[str, Json]:
        """Return the params of a question as the client gets them. Raises UpstreamError for forbidden questions."""
        if method == ELICITATION:
            return self._elicitation(params)
        if method == SAMPLING:
            if not self.samples:
                raise errors.UpstreamError("The upstream asks the client's model, which its connection does not allow.")
            return self._sampling(params)
        if method != ROOTS:
            raise errors.UpstreamError(f"The upstream asks for {method[:80]!r}, which MCP has no place for.")
        if not self.lists_roots:
            raise errors.UpstreamError("The upstream asks for the client's roots, which its connection does not allow.")
        return {"_meta": {ASKED_BY: self.connection}}

    def message(self, words: Json) -> str:
        """Return the text for a person, whole, after the name of its author."""
        if not isinstance(words, str):
            raise errors.UpstreamError("The upstream asks in a form that MCP does not have.")
        return f'The connection "{self.connection}" asks: {directions.plain(words)}'

    def may_open(self, url: Json) -> bool:
        """Return whether a person may be led to this address."""
        if not isinstance(url, str) or any(char <= " " or char in "\x7f\\" for char in url):
            return False  # browsers do not agree on where such addresses lead
        try:
            parts = urlsplit(url)
            host, is_plain = parts.hostname, parts.username is None and parts.password is None
        except ValueError:
            return False
        if not host or not is_plain:
            return False
        return parts.scheme == "https" or (parts.scheme == "http" and self.opens_loopback and host in _LOOPBACK)

    def _elicitation(self, params: Mapping[str, Json]) -> dict[str, Json]:
        if not self.elicits:
            raise errors.UpstreamError("The upstream asks the user, which its connection does not allow.")
        mode, schema = params.get("mode", "form"), params.get("requestedSchema")
        asked = {**params, "message": self.message(params.get("message", ""))}
        if mode == "url":
            if not self.may_open(params.get("url")):
                raise errors.UpstreamError(
                    "The upstream leads the user to an address that is not https, or not plain. The user is not asked."
                )
            asked.pop("requestedSchema", None)
            return asked
        if mode != "form" or not isinstance(schema, dict):
            raise errors.UpstreamError("The upstream asks in a form that MCP does not have.")
        asked.pop("url", None)
        if not self.asks_secrets:
            self._check_fields(str(params.get("message", "")), schema)
        return {**asked, "requestedSchema": directions.plain_words(schema)}

    @staticmethod
    def _check_fields(message: str, schema: Mapping[str, Json]) -> None:
        try:
            found = credential_field(message, schema)
        except ValueError as error:
            raise errors.UpstreamError(f"The user is not asked: {error}.") from error
        if found is not None:
            raise errors.UpstreamError(
                f"The field {found[:80]!r} of the form asks for a credential, so the user is not asked. Lead the user "
                "to an address of your own (elicitation in URL mode), or have the hub's operator allow such forms."
            )

    def _sampling(self, params: Mapping[str, Json]) -> dict[str, Json]:
        # To the client even `thisServer` is the hub, and so the context of all its connections.
        asked = {name: value for name, value in params.items() if name not in ("includeContext", "_meta")}
        return {**asked, "_meta": {ASKED_BY: self.connection}}
