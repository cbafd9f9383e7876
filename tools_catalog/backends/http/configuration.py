"""The configuration of an HTTP tool by an operator or an importer, checked and compiled. Pure: nothing is sent here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from tools_catalog.backends.http import styles
from tools_catalog.backends.http.body import BodyTemplate, parse_leaves
from tools_catalog.backends.http.template import Template, UrlTemplate
from tools_catalog.bindings import SERVICE, Destination, origin_of
from tools_catalog.call.base import Json
from tools_catalog.upstream.account import NO_ACCOUNT, OF_PERSONS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
DEFAULT_TIMEOUT_SECONDS = 30.0
MAX_TIMEOUT_SECONDS = 600.0
DEFAULT_MAX_RESPONSE_BYTES = 1024 * 1024
HIGHEST_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
MOST_RETRIES = 5
DEFAULT_PAGES = 5
MOST_PAGES = 100
ANSWERS = ("auto", "json", "text", "binary")

# fmt: off
_MEMBERS = frozenset({
    "service", "credentials", "method", "url", "query", "headers", "cookies", "body", "body_encoding", "response",
    "pages", "retries", "timeout_seconds", "max_response_bytes", "success",
})
CONNECTION_HEADERS = frozenset({
    "host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "expect",
    "accept-encoding", "proxy-authorization", "proxy-connection", "keep-alive",
})
"""Headers that belong to the connection, not to a tool."""
# fmt: on
HEADER_NAME = re.compile(r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")

Pointer = tuple[str, ...]
"""The steps of a JSON pointer (RFC 6901); `*` stands for each element of a list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """One API shared by several tools: its address, and the common parts of its requests."""

    slug: str
    url: str
    headers: Mapping[str, str]
    kind: str = ""
    version: str = ""
    id: int = 0
    account: str = NO_ACCOUNT
    state: str = field(default="", repr=False, compare=False)
    """Digest of all its settings, those of its accounts too."""

    of: ClassVar[str] = SERVICE
    identity: ClassVar[None] = None

    @property
    def is_personal(self) -> bool:
        """Each caller is there with an account of his own."""
        return self.account in OF_PERSONS

    def secrets(self) -> Iterator[tuple[str, Destination]]:
        """Return the secrets of its headers, each with where it goes; raises ValueError for headers it cannot have."""
        to = Destination(origin_of(self.url), (f"{SERVICE}:{self.slug}",))
        for name, text in self.headers.items():
            place = f"headers.{name}"
            for secret in Template.parse(text, place, allow_basic=True).secrets:
                yield secret, to.at(place)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """How an answer that comes in pages is read on. Exactly one of `next`, `cursor` and `number` is set."""

    items: Pointer
    next: Pointer | None = None
    """Where the address of the next page stands."""
    cursor: Pointer | None = None
    """Where the value stands that the next request carries in the query."""
    number: int | None = None
    """The number of the first page."""
    query: str = ""
    """The query parameter of `cursor` or `number`."""
    last: Pointer | None = None
    """Where it stands that this was the last page."""
    most: int = DEFAULT_PAGES

    @classmethod
    def parse(cls, raw: Json) -> Pages:
        known = {"items", "next", "cursor", "number", "query", "last", "most"}
        if not isinstance(raw, dict) or not raw.keys() <= known:
            raise ValueError(f"pages: must be an object of {', '.join(sorted(known))}.")
        ways = [way for way in ("next", "cursor", "number") if way in raw]
        if len(ways) != 1:
            raise ValueError("pages: needs one of next, cursor and number.")
        if ("query" in raw) is ("next" in raw) or not isinstance(raw.get("query", ""), str):
            raise ValueError("pages.query: the query parameter of cursor or number; next has none.")
        most = raw.get("most", DEFAULT_PAGES)
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_PAGES:
            raise ValueError(f"pages.most: must be a whole number from 1 to {MOST_PAGES}.")
        number = raw.get("number")
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise ValueError("pages.number: must be the number of the first page.")
        return cls(
            items=_pointer(raw.get("items", ""), "pages.items"),
            next=_pointer(raw["next"], "pages.next") if "next" in raw else None,
            cursor=_pointer(raw["cursor"], "pages.cursor") if "cursor" in raw else None,
            number=number,
            query=raw.get("query", ""),
            last=_pointer(raw["last"], "pages.last") if "last" in raw else None,
            most=most,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpConfiguration:
    """A checked configuration, ready to be rendered. `parse` describes its members."""

    method: str
    url: UrlTemplate
    headers: tuple[tuple[str, Template], ...]
    cookies: tuple[tuple[str, Template], ...]
    body: BodyTemplate
    pick: Pointer
    fields: tuple[tuple[str, Pointer], ...]
    faults: Pointer
    """The place of errors in the answer of a service that returns 200 for them."""
    answer_as: str
    pages: Pages | None
    retries: int
    timeout_seconds: float
    max_response_bytes: int
    success: frozenset[int]
    used_arguments: frozenset[str]
    secret_uses: frozenset[tuple[str, str]]
    """Names of secrets, each with a place where it stands."""
    users: tuple[str, ...]
    """Its users beside the tool itself: its service."""
    account: Service | None = None
    """The service that its requests are made with an account of; None where none is sent."""

    @classmethod
    def parse(cls, raw: Json, service: Service | None = None) -> HttpConfiguration:
        """Read a configuration; raises ValueError with the path of the member and the reason.

        `service` the name of a service, whose address then precedes `url` and whose headers are sent too;
        `credentials` false, to omit its headers with a secret; `method`; `url` with placeholders in path segments and
        query values; `query` {name: template}; `headers` {name: template}; `cookies` {name: template}, without
        secrets; `body` "none", "arguments" (all that are used nowhere else) or a JSON template whose leaf "{arg}"
        keeps the argument's type; `body_encoding` json, form or text; `response` {"pick": JSON pointer, "fields":
        {name: JSON pointer}, "errors": JSON pointer, "as": auto, json, text or binary}; `pages` see `Pages`;
        `retries`; `timeout_seconds`; `max_response_bytes`; `success` a list of statuses or classes such as "2xx".
        `{secret:NAME}` and `{basic:NAME}` stand in headers, the former in query and body too.
        """
        if not isinstance(raw, dict):
            raise ValueError("configuration: must be an object.")
        unknown = raw.keys() - _MEMBERS
        if unknown:
            raise ValueError(f"{sorted(unknown)[0]}: unknown member. Known: {', '.join(sorted(_MEMBERS))}.")
        if "service" in raw and service is None:
            raise ValueError(f"service: there is no service {str(raw['service'])[:50]!r}.")
        method = _text(raw.get("method", "GET"), "method").upper()
        if method not in METHODS:
            raise ValueError(f"method: must be one of {', '.join(METHODS)}.")
        given = "" if service is not None and raw.get("url", "") == "" else _text(raw.get("url"), "url")
        url = UrlTemplate.parse(given, _texts(raw.get("query", {}), "query"), service.url if service else "")
        own = _headers(_texts(raw.get("headers", {}), "headers"))
        shared = dict(service.headers) if service is not None else {}
        if "credentials" in raw and (service is None or not isinstance(raw["credentials"], bool)):
            raise ValueError("credentials: true or false, of a tool with a service: whether that one's are sent.")
        if raw.get("credentials") is False:
            shared = {name: value for name, value in shared.items() if not service_secrets({name: value})}
        headers = tuple(
            (name, Template.parse(value, f"headers.{name}", allow_basic=True, allowed=styles.IN_HEADER))
            for name, value in _merged(shared, own).items()
        )
        cookies = _cookies(_texts(raw.get("cookies", {}), "cookies"))
        body = _body(raw, method)
        answer_as, pick, fields, faults = _response(raw.get("response", {}))
        pages = Pages.parse(raw["pages"]) if "pages" in raw else None
        if pages is not None and (method != "GET" or answer_as in ("text", "binary") or pick):
            raise ValueError("pages: for GET and answers of JSON; pages.items says what is picked.")
        retries = raw.get("retries", 0)
        if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MOST_RETRIES:
            raise ValueError(f"retries: must be a whole number from 0 to {MOST_RETRIES}.")
        templates = [*url.templates, *(template for _, template in (*headers, *cookies)), *body.templates()]
        return cls(
            method=method,
            url=url,
            headers=headers,
            cookies=cookies,
            body=body,
            pick=pick,
            fields=fields,
            faults=faults,
            answer_as=answer_as,
            pages=pages,
            retries=retries,
            timeout_seconds=_number(
                raw.get("timeout_seconds", DEFAULT_TIMEOUT_SECONDS), "timeout_seconds", MAX_TIMEOUT_SECONDS
            ),
            max_response_bytes=int(
                _number(
                    raw.get("max_response_bytes", DEFAULT_MAX_RESPONSE_BYTES),
                    "max_response_bytes",
                    HIGHEST_MAX_RESPONSE_BYTES,
                )
            ),
            success=_statuses(raw.get("success", ["2xx"])),
            used_arguments=frozenset(name for template in templates for name in template.arguments),
            secret_uses=frozenset((name, template.place) for template in templates for name in template.secrets),
            users=(f"{SERVICE}:{service.slug}",) if service is not None else (),
            account=service if _takes_account(raw, service) else None,
        )

    @property
    def destination(self) -> Destination:
        return Destination(self.url.plain_origin, self.users)


def parse_service(url: object, headers: object) -> None:
    """Raise ValueError for invalid addresses or headers of a service; the path is in the message."""
    UrlTemplate.parse("/", {}, _text(url, "url"))
    for name, value in _headers(_texts(headers, "headers")).items():
        template = Template.parse(value, f"headers.{name}", allow_basic=True)
        if any(template.arguments):
            raise ValueError(f"headers.{name}: a service takes no arguments of a call, only {{secret:NAME}}.")


def _takes_account(raw: dict[str, Json], service: Service | None) -> bool:
    return service is not None and service.account != NO_ACCOUNT and raw.get("credentials") is not False


def service_secrets(headers: Mapping[str, str]) -> set[str]:
    return {name for value in headers.values() for name in Template.parse(value, "", allow_basic=True).secrets}


def _response(raw: Json) -> tuple[str, Pointer, tuple[tuple[str, Pointer], ...], Pointer]:
    if not isinstance(raw, dict) or not raw.keys() <= {"pick", "fields", "as", "errors"}:
        raise ValueError("response: must be an object with pick, fields, errors and as.")
    answer_as = raw.get("as", "auto")
    if answer_as not in ANSWERS:
        raise ValueError(f"response.as: must be one of {', '.join(ANSWERS)}.")
    pick = _pointer(raw.get("pick", ""), "response.pick")
    given = raw.get("fields", {})
    if not isinstance(given, dict):
        raise ValueError("response.fields: must be an object of JSON pointers by name.")
    fields = tuple((name, _pointer(pointer, f"response.fields.{name}")) for name, pointer in given.items())
    faults = _pointer(raw.get("errors", ""), "response.errors")
    if (pick or fields or faults) and answer_as in ("text", "binary"):
        raise ValueError(f"response.pick: needs JSON, but response.as is {answer_as}.")
    return answer_as, pick, fields, faults


def _text(value: Json, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{where}: must be text.")
    return value


def _texts(value: Json, where: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
        raise ValueError(f"{where}: must be an object whose values are text.")
    return value


def _headers(headers: dict[str, str]) -> dict[str, str]:
    seen: set[str] = set()
    for name, value in headers.items():
        where = f"headers.{name}"
        if not HEADER_NAME.match(name):
            raise ValueError(f"{where}: not a header name.")
        if name.lower() in CONNECTION_HEADERS:
            raise ValueError(f"{where}: this header belongs to the connection and cannot be set.")
        if name.lower() in seen:
            raise ValueError(f"{where}: given twice.")
        if re.search(r"[^\x20-\x7e\t]", value):
            raise ValueError(f"{where}: may hold only visible ASCII characters.")
        seen.add(name.lower())
    return headers


def _cookies(cookies: dict[str, str]) -> tuple[tuple[str, Template], ...]:
    for name in cookies:
        if not HEADER_NAME.match(name):
            raise ValueError(f"cookies.{name}: not a name of a cookie.")
    # A secret in a cookie is written as the header Cookie, for whose place secrets are approved.
    return tuple(
        (name, Template.parse(text, f"cookies.{name}", allow_secrets=False, allowed=styles.IN_PAIRS))
        for name, text in cookies.items()
    )


def _merged(shared: Mapping[str, str], own: dict[str, str]) -> dict[str, str]:
    """Put a tool's own headers over those of its service."""
    said = {name.lower() for name in own}
    return {**{name: value for name, value in shared.items() if name.lower() not in said}, **own}


def _body(raw: dict[str, Json], method: str) -> BodyTemplate:
    body, encoding = raw.get("body", "none"), raw.get("body_encoding", "json")
    if encoding not in ("json", "form", "text"):
        raise ValueError("body_encoding: must be json, form or text.")
    if body in ("none", None):
        return BodyTemplate(kind="none", encoding=encoding)
    if method in ("GET", "HEAD"):
        raise ValueError(f"body: a {method} request has none.")
    if encoding == "text":
        if not isinstance(body, str):
            raise ValueError("body: with body_encoding text it must be a text, such as {content}.")
        return BodyTemplate(kind="template", encoding=encoding, leaves=parse_leaves(body, "body"))
    if body == "arguments":
        return BodyTemplate(kind="arguments", encoding=encoding)
    is_argument = isinstance(body, str) and re.fullmatch(r"\{[^{}:]+\}", body) and encoding == "json"
    if not is_argument and not isinstance(body, dict) and (encoding == "form" or not isinstance(body, list)):
        raise ValueError('body: must be "none", "arguments", one "{argument}" or a JSON template (a form: an object).')
    allowed = styles.IN_PAIRS if encoding == "form" else frozenset[str]()
    return BodyTemplate(kind="template", encoding=encoding, leaves=parse_leaves(body, "body", allowed))


def _pointer(value: Json, where: str) -> Pointer:
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ValueError(f"{where}: must be a JSON pointer such as /data/items.")
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in value.split("/")[1:])


def _number(value: Json, where: str, most: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise ValueError(f"{where}: must be a number above 0 and at most {most:g}.")
    return value


def _statuses(value: Json) -> frozenset[int]:
    if not isinstance(value, list) or not value:
        raise ValueError("success: must be a list of statuses.")
    found: set[int] = set()
    for item in value:
        if isinstance(item, int) and not isinstance(item, bool) and 200 <= item < 600:
            found.add(item)
        elif isinstance(item, str) and re.fullmatch(r"[2-5]xx", item):
            found.update(range(int(item[0]) * 100, int(item[0]) * 100 + 100))
        else:
            raise ValueError(f"success: {item!r} is neither a status nor a class such as '2xx'.")
    return frozenset(found)
