"""Any HTTP API as a tool: a request per call, or one a page, and its answer as content.

The configuration is data from an operator or an importer; `HttpConfiguration.parse` refuses unsafe requests. Every
request leaves through the egress guard, and an answer is read only up to its limit.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import httpx2

from sessions_app.kit import decoding
from sessions_app.protocol import errors, json
from sessions_app.protocol.authorization import Challenge
from tools_catalog.backends.http.answer import content_of, data, optional, picked, read, scrubbed, shaped
from tools_catalog.backends.http.configuration import HttpConfiguration, Pages, Service
from tools_catalog.backends.http.template import Secrets, Values, header_text, written_pairs
from tools_catalog.call.base import Json, ToolResult
from tools_catalog.call.content import text_block
from tools_catalog.call.context import ToolContext
from tools_catalog.egress import guard as egress
from tools_catalog.upstream.account import Account, AccountNeeded, AccountRefused, Accounts

__all__ = ["HttpBackend", "HttpConfiguration", "Service", "read"]

EXCERPT_BYTES = 2048
"""How much of an error's body a model is shown."""
_PASSING = frozenset({429, 502, 503, 504})
"""Statuses after which the same request may succeed."""
_SIGNED_ATTEMPTS = 3
"""Of a request with an account: the second and third with another token."""
_FIRST_PAUSE_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 10.0


@dataclass(slots=True)
class _Request:
    """The request of one call, whose address paging changes."""

    url: httpx2.URL
    headers: dict[str, str]
    content: bytes | None
    secrets: list[str]
    account: _Held | None = None


class RequestSigning(Protocol):
    """The process's signing of requests: its identity at services, and the link for connecting an account."""

    @property
    def account(self) -> Accounts | None: ...

    @property
    def connect(self) -> Callable[[AccountNeeded, ToolContext], Awaitable[None]] | None: ...


@dataclass(frozen=True, slots=True)
class _Held:
    """The account that one call is made with."""

    account: Account
    lead_person: Callable[[AccountNeeded, ToolContext], Awaitable[None]] | None

    async def lead(self, needed: AccountNeeded, context: ToolContext) -> None:
        """Lead the person to where it is connected, if the client can. Raises as `input.require`."""
        if self.lead_person is not None:
            await self.lead_person(needed, context)


class _TokenRefused(Exception):
    """The service refused the token, and there may be another one."""


@dataclass(slots=True)
class _Received:
    status: int
    body: bytes
    kind: str
    charset: str


class HttpBackend:
    """Calls one HTTP API. `secret` is asked at every call for values, with the destination that they go to.

    Without `client` the running loop's shared one is used. `retries`: whether requests may be repeated as configured:
    only if the operator marked the tool as safe for that. A configuration that was not parsed yet is parsed, which
    may raise ValueError. `user` is the tool, as bindings of secrets name it. `environment` gives the accounts of the
    running process, for a service that takes one.
    """

    def __init__(
        self,
        configuration: HttpConfiguration | dict[str, Json],
        *,
        secret: Secrets,
        client: httpx2.AsyncClient | None = None,
        retries: bool = False,
        user: str = "",
        environment: Callable[[], RequestSigning] | None = None,
    ) -> None:
        if not isinstance(configuration, HttpConfiguration):
            configuration = HttpConfiguration.parse(configuration)
        self._configuration = configuration
        self._secret = secret
        self._client = client
        self._to = configuration.destination.of(user) if user else configuration.destination
        self._retries = configuration.retries if retries else 0
        self.secrets = frozenset(name for name, _place in configuration.secret_uses)
        self._environment = environment

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        """Send the request and give its answer.

        Raises `ArgumentsInvalid`, `ToolTimeout`, `ConnectionFailed` (nothing was sent), `TransportError` (something
        may have been), `UpstreamError` for a status outside `success`, `ResultInvalid` for an answer that is too
        large or does not fit the configuration; `AccountNeeded` and `AccountRefused` if the service uses accounts,
        after the person was sent the link for connecting one, if the client can open it.
        """
        account = self._account(context)
        try:
            return await self._called(arguments, context, account)
        except AccountNeeded as needed:
            if account is not None:
                await account.lead(needed, context)
            raise

    async def _called(self, arguments: dict[str, Json], context: ToolContext, account: _Held | None) -> ToolResult:
        configuration = self._configuration
        values = Values(arguments, self._secret, self._to)
        request = request_of(configuration, values)
        request.account = account
        seconds = max(0.0, min(configuration.timeout_seconds, context.deadline.remaining_seconds()))
        deadline = asyncio.get_running_loop().time() + seconds
        try:
            async with asyncio.timeout(seconds):
                if configuration.pages is not None:
                    return await self._pages(configuration.pages, request, deadline)
                received = await self._send(request, deadline, configuration.max_response_bytes)
                if not received.body:
                    said = f"The service answered with status {received.status} and no content."
                    return ToolResult(content=[text_block(said)])
                uri = str(request.url.copy_with(query=None))
                return await decoding.answers.decoded(
                    received.body, lambda body: content_of(configuration, body, received.kind, received.charset, uri)
                )
        except TimeoutError as exc:
            raise errors.ToolTimeout(
                f"The service did not answer within {seconds:g} seconds.", timeout_seconds=seconds
            ) from exc

    async def aclose(self) -> None:
        """Nothing to release: the client is shared."""

    async def _send(self, request: _Request, deadline: float, limit: int) -> _Received:
        """Send one request, again where that is safe and there is time."""
        loop = asyncio.get_running_loop()
        attempt = 0
        while True:
            try:
                return await self._once(request, deadline - loop.time(), limit)
            except (AccountNeeded, AccountRefused):
                raise  # nothing ran, and nothing gets better by a repetition
            except (errors.ConnectionFailed, errors.TransportError, errors.UpstreamError) as error:
                attempt += 1
                pause = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt) * random.uniform(0.5, 1)  # noqa: S311
                if error.retry_after_seconds is not None:
                    pause = max(pause, error.retry_after_seconds)
                passing = not isinstance(error, errors.UpstreamError) or error.details["status"] in _PASSING
                if attempt > self._retries or not passing or loop.time() + pause >= deadline:
                    raise
            await asyncio.sleep(pause)

    def _account(self, context: ToolContext) -> _Held | None:
        """Return the account of the caller, where the service takes one."""
        service = self._configuration.account
        if service is None:
            return None
        signing = self._environment() if self._environment is not None else None
        if signing is None or signing.account is None:
            raise AccountRefused(f"{service.slug} takes accounts, and this process of the hub has none.")
        principal = context.call.caller_principal if service.is_personal else ""
        if service.is_personal and not principal:
            raise AccountNeeded("This call is nobody's, so there is no account for it.", service.slug, of=service.of)
        return _Held(signing.account(service, principal), signing.connect)

    async def _once(self, request: _Request, seconds: float, limit: int) -> _Received:
        """Send it; with an account also once more, or twice, where its token was refused and there is another."""
        if request.account is None:
            return await self._sent(request, "", seconds, limit)
        for _attempt in range(_SIGNED_ATTEMPTS):
            token = await request.account.account.token()
            with suppress(_TokenRefused):
                return await self._sent(request, token, seconds, limit)
        raise AccountRefused("The service refuses each token that the account gets. Tell the hub's operator.")

    async def _sent(self, request: _Request, token: str, seconds: float, limit: int) -> _Received:
        configuration = self._configuration
        headers, secrets = request.headers, request.secrets
        if request.account is not None:
            signed = request.account.account.headers(token, configuration.method, str(request.url))
            headers, secrets = {**headers, **signed}, [*secrets, token]
        timeout = httpx2.Timeout(max(0.0, seconds), connect=min(egress.CONNECT_SECONDS, max(0.0, seconds)))
        client = self._client or egress.shared_client()
        try:
            async with egress.stream(
                client, configuration.method, request.url, headers=headers, content=request.content, timeout=timeout
            ) as response:
                challenge = response.headers.get("www-authenticate", "")
                if request.account is not None and (nonce := response.headers.get("dpop-nonce")):
                    request.account.account.heard(str(request.url), nonce)
                wants_more = response.status_code == 403 and Challenge.read(challenge).error == "insufficient_scope"
                if request.account is None or not (response.status_code == 401 or wants_more):
                    return await _received(configuration, response, secrets, limit)
                status = response.status_code
            await request.account.account.refused(token, status, challenge)
            raise _TokenRefused
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as exc:
            raise errors.ConnectionFailed from exc
        except httpx2.TimeoutException as exc:
            raise TimeoutError from exc
        except httpx2.HTTPError as exc:
            raise errors.TransportError from exc

    async def _pages(self, pages: Pages, request: _Request, deadline: float) -> ToolResult:
        """Read page after page, up to the limits of pages, bytes and time."""
        configuration = self._configuration
        first, items = request.url, []
        number, left = pages.number, configuration.max_response_bytes
        if number is not None:
            request.url = first.copy_merge_params({pages.query: number})
        more = True
        for _ in range(pages.most):
            received = await self._send(request, deadline, left)
            left -= len(received.body)
            try:
                page = await decoding.answers.decoded(received.body, json.loads)
            except (errors.ProtocolError, ValueError) as exc:
                raise errors.ResultInvalid("The service's answer is not valid JSON.") from exc
            found = picked(page, pages.items)
            if not isinstance(found, list):
                raise errors.ResultInvalid("The service's answer has no list of items, which this tool gives back.")
            items += shaped(configuration, found)
            onward = _onward(pages, page, found, request.url, first, number)
            if onward is None:
                more = False
                break
            request.url, number = onward
        return data({"items": items, "more": more})


def _onward(
    pages: Pages, page: Json, found: list[Json], here: httpx2.URL, first: httpx2.URL, number: int | None
) -> tuple[httpx2.URL, int | None] | None:
    """Return address and number of the next page; None after the last."""
    if pages.last is not None and optional(page, pages.last) is True:
        return None
    if number is not None:
        return (first.copy_merge_params({pages.query: number + 1}), number + 1) if found else None
    value = optional(page, pages.cursor if pages.cursor is not None else pages.next or ())
    if value in (None, "", False):
        return None
    if pages.cursor is not None:
        if not isinstance(value, str | int):
            raise errors.ResultInvalid("The service names its next page by what is neither a text nor a number.")
        return first.copy_merge_params({pages.query: value}), None
    if not isinstance(value, str):
        raise errors.ResultInvalid("The service names its next page by what is no address.")
    try:
        there = here.join(value)
    except httpx2.InvalidURL as exc:
        raise errors.ResultInvalid("The service names its next page by what is no address.") from exc
    # The credentials of the tool go with the request: only the query may differ.
    same = (there.scheme, there.raw_host, there.port) == (first.scheme, first.raw_host, first.port)
    if not same or there.raw_path.partition(b"?")[0] != first.raw_path.partition(b"?")[0] or there.userinfo:
        raise errors.ResultInvalid("The service names a next page at another address, which is not followed.")
    return there.copy_with(fragment=None), None


def request_of(configuration: HttpConfiguration, values: Values) -> _Request:
    """Return the request of one call."""
    url = configuration.url.render(values)
    headers = {"Accept": "application/json, text/*;q=0.9, */*;q=0.5"}
    body = configuration.body.render(values, configuration.used_arguments)
    if body is not None:
        headers["Content-Type"] = body[0]
    names = {name.lower(): name for name in headers}
    for name, template in configuration.headers:
        text = header_text(name, template, values)
        if text is not None:
            headers.pop(names.get(name.lower(), ""), None)
            headers[name] = text
    if configuration.cookies:
        there = next((name for name in headers if name.lower() == "cookie"), "Cookie")
        written = [headers[there]] if there in headers else []
        taken = {each.partition("=")[0].strip() for text in written for each in text.split(";")}
        try:
            sent = written_pairs(configuration.cookies, values, taken)
        except UnicodeEncodeError as exc:
            raise errors.ArgumentsInvalid("An argument cannot be written into a cookie.") from exc
        written += [f"{name}={value}" for name, value in sent]
        if written:
            headers[there] = "; ".join(written)
    return _Request(url, headers, None if body is None else body[1], values.used_secrets)


async def _received(
    configuration: HttpConfiguration, response: httpx2.Response, secrets: list[str], limit: int
) -> _Received:
    status = response.status_code
    if status not in configuration.success:
        excerpt, _ = await read(response, EXCERPT_BYTES)
        text = scrubbed(excerpt, secrets).decode("utf-8", "replace").strip()
        error = errors.UpstreamError(
            f"The service answered with status {status}{f': {text}' if text else '.'}", status=status, excerpt=text
        )
        after = response.headers.get("retry-after", "")
        if status in _PASSING and after.isdecimal() and len(after) < 6:
            error.retry_after_seconds = float(after)
        raise error
    body, is_whole = await read(response, limit)
    if not is_whole:
        raise errors.ResultInvalid(
            f"The service's answer is larger than the {configuration.max_response_bytes} bytes that this tool accepts. "
            "Ask for less.",
            max_response_bytes=configuration.max_response_bytes,
        )
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _Received(status, scrubbed(body, secrets), kind, response.charset_encoding or "utf-8")
