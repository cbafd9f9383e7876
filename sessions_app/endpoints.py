"""The endpoints of access tokens, and their names: by the public address, in one place.

A resource in RFC 8707 and RFC 9728 is an endpoint here: the path given to a client, such as `/mcp`. The addresses
that only belong to it, such as `/messages` to `/sse`, are no endpoints of their own. A token is for one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from sessions_app import transports

DOCUMENTS = "/.well-known/oauth-protected-resource"
"""Where the documents of RFC 9728 begin; the endpoint's path follows."""
CHAT = "/v1"
MAIN = transports.STREAMABLE_HTTP.path

_TOOLSET = re.compile(rf"{MAIN}/s/[A-Za-z0-9_-]{{1,100}}(?P<rest>/[a-z]+)?")
_WORKSPACE = re.compile(rf"/w/([a-z0-9][a-z0-9-]{{0,31}}){MAIN}")
_PORTS = {"http": 80, "https": 443}


def _served() -> Iterator[tuple[str, str]]:
    for transport in transports.TRANSPORTS.values():
        if transport.path:
            yield transport.path, transport.path
            yield transport.messages_path or transport.path, transport.path


_ENDPOINT_OF = dict(_served())
"""A path of a client -> the endpoint it belongs to."""
_AT_TOOLSET = {
    path.removeprefix(MAIN): endpoint.removeprefix(MAIN)
    for path, endpoint in _ENDPOINT_OF.items()
    if any(each.is_announced and path in (each.path, each.messages_path) for each in transports.TRANSPORTS.values())
}
SCOPES = {"tools:list": ("tools:list",), "tools:call": ("tools:list", "tools:call"), "chat": ("chat",)}
"""Scopes of an access token -> scopes of the hub: the right to call tools includes listing them."""


def own() -> tuple[str, ...]:
    """Return the endpoints that every hub has, without those of toolsets."""
    return (*dict.fromkeys(_ENDPOINT_OF.values()), CHAT)


def of_path(path: str) -> str:
    """Return the endpoint that an address belongs to; empty where no access token opens it."""
    path = path.removesuffix("/")
    if path == CHAT or path.startswith(f"{CHAT}/"):
        return CHAT
    if (endpoint := _ENDPOINT_OF.get(path)) is not None:
        return endpoint
    if _WORKSPACE.fullmatch(path):
        return path
    found = _TOOLSET.fullmatch(path)
    if found is None or (rest := found["rest"] or "") not in _AT_TOOLSET:
        return ""
    return path.removesuffix(rest) + _AT_TOOLSET[rest]


def toolset_of(endpoint: str) -> str:
    """Return the name of the toolset that an endpoint serves; empty: the whole catalogue."""
    rest = endpoint.removeprefix(f"{MAIN}/s/")
    return "" if rest == endpoint else rest.partition("/")[0]


def workspace_of(path: str) -> str:
    """Return the name of the workspace at this address; empty: none."""
    found = _WORKSPACE.fullmatch(path.removesuffix("/"))
    return found[1] if found is not None else ""


def scopes_of(endpoint: str) -> tuple[str, ...]:
    """Return the scopes that clients of an endpoint need, all that it asks for at once."""
    return ("chat", "tools:list", "tools:call") if endpoint == CHAT else ("tools:list", "tools:call")


def issuer() -> str:
    """Return the hub's name as an authorization server, and the beginning of all its public addresses."""
    return str(settings.MCPHUB_PUBLIC_URL).rstrip("/")


def origin_for(host: str | None) -> str:
    """Return the base of public addresses, for a client with this Host header.

    It is the configured address. On loopback `localhost`, `127.0.0.1` and `[::1]` are one hub, and a client compares
    addresses with the one typed into it.
    """
    public = urlsplit(issuer())
    if host and _is_loopback(public.hostname):
        with contextlib.suppress(ValueError):
            asked = urlsplit(f"//{host}")
            if _is_loopback(asked.hostname) and _port(asked, public.scheme) == _port(public, public.scheme):
                return f"{public.scheme}://{host}"
    return issuer()


def public_address() -> str:
    """Return the address that clients elsewhere reach the hub by; empty where it is on loopback, as unset it is."""
    return "" if _is_loopback(urlsplit(issuer()).hostname) else issuer()


def publisher() -> str:
    """Return the host of the public address, by which catalogues name publishers; an IP address is `localhost`."""
    host = urlsplit(issuer()).hostname or "localhost"
    is_name = ":" not in host and not host.rpartition(".")[2].isdecimal()
    return host if is_name else "localhost"


def namespace() -> str:
    """Return the publisher reversed, as registries name publishers: `example.org` is `org.example`."""
    return ".".join(reversed(publisher().split(".")))


def identifier(endpoint: str, host: str | None = None) -> str:
    """Return the whole address of an endpoint, by which clients and tokens name it."""
    return origin_for(host) + endpoint


def document(endpoint: str, host: str | None = None) -> str:
    """Return the address of the document that describes an endpoint (RFC 9728)."""
    return origin_for(host) + DOCUMENTS + endpoint


def named(resource: str) -> str:
    """Return the endpoint that a `resource` of RFC 8707 names; empty where it is none of this hub's."""
    public = urlsplit(issuer())
    try:
        asked = urlsplit(resource)
        port = _port(asked, asked.scheme)
    except ValueError:
        return ""
    if asked.scheme != public.scheme or asked.query or "#" in resource or "@" in asked.netloc:
        return ""
    is_same = asked.hostname == public.hostname or (_is_loopback(asked.hostname) and _is_loopback(public.hostname))
    if not is_same or port != _port(public, public.scheme) or not asked.path.startswith(public.path):
        return ""
    path = asked.path.removeprefix(public.path).removesuffix("/")
    if not path:
        return MAIN  # a client that found the document of the whole hub only
    return path if of_path(path) == path else ""


def _port(parts: SplitResult, scheme: str) -> int | None:
    return parts.port or _PORTS.get(scheme)


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
