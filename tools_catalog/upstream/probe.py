"""A test of one connection, step by step, for its operator. Nothing is kept of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sessions_app.protocol import errors
from tools_catalog.backends.http.template import Secrets
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream import further, listing
from tools_catalog.upstream.account import Accounts
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.opening import opened
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import NO_ACCOUNT, ConnectionSpec
from tools_catalog.upstream.transports.base import SessionLost

ADDRESS, CONNECT, LIST = "address", "connect", "list"


@dataclass(frozen=True, slots=True)
class Step:
    """`kind` is one of address, connect, list; `outcome` is the result, or the problem."""

    kind: str
    is_good: bool
    outcome: str
    milliseconds: int


class Progress:
    """A test under way. Read on the event loop that it runs on."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self._began = time.monotonic()
        self._scrub: Scrubber | None = None
        self._session: UpstreamClient | None = None

    @property
    def seconds(self) -> int:
        """Since its beginning."""
        return int(time.monotonic() - self._began)

    @property
    def stage(self) -> str:
        """Return the step that it is at."""
        if self._session is None:
            return ADDRESS
        return LIST if any(step.kind == CONNECT for step in self.steps) else CONNECT

    @property
    def stderr(self) -> str:
        """Return the end of the program's standard error so far, without secrets."""
        if self._session is None or self._scrub is None:
            return ""
        return self._scrub.text(str(self._session.last_words))

    def follow(self, session: UpstreamClient, scrub: Scrubber) -> None:
        self._session, self._scrub = session, scrub


async def probe(spec: ConnectionSpec, secret: Secrets, version: str, *, account: Accounts | None = None) -> list[Step]:
    """Check the address, connect and negotiate, list the tools, disconnect. Ends at the first step that fails.

    `account` gives the account that lists are read with.
    """
    return (await look(spec, secret, version, account=account))[0]


async def look(
    spec: ConnectionSpec,
    secret: Secrets,
    version: str,
    *,
    kinds: Iterable[str] = (listing.TOOL,),
    account: Accounts | None = None,
    progress: Progress | None = None,
    readers: Mapping[str, further.ReadOffers] | None = None,
) -> tuple[list[Step], listing.Offers]:
    """Do as `probe` does, and return the listed entries of these kinds; tools stand first among them.

    A program may take the time of a first start. `progress` shows what happens meanwhile. `readers` read the offers of
    further kinds.
    """
    spec = spec.as_first()
    progress = progress or Progress()
    steps = progress.steps
    began = time.monotonic()

    def took() -> int:
        nonlocal began
        now = time.monotonic()
        milliseconds, began = round((now - began) * 1000), now
        return milliseconds

    if spec.url:
        try:
            EgressPolicy.from_settings().check_url(spec.url)
        except errors.EgressRefused as error:
            steps.append(Step(ADDRESS, False, str(error), took()))
            return steps, {}
        steps.append(Step(ADDRESS, True, spec.url, took()))
    scrub = Scrubber(secret)
    session: UpstreamClient | None = None

    def make(is_unprobed: bool) -> UpstreamClient:
        nonlocal session
        held = account(spec, "") if account is not None and spec.account != NO_ACCOUNT else None
        session = UpstreamClient(spec, scrub, version, is_unprobed=is_unprobed, account=held)
        progress.follow(session, scrub)
        return session

    try:
        try:
            session = await opened(make)
        except errors.HubError as error:
            assert session is not None
            words = "\n".join(filter(None, [str(error), str(session.last_words)]))
            steps.append(Step(CONNECT, False, scrub.text(words), took()))
            return steps, {}
        steps.append(
            Step(CONNECT, True, scrub.text(f"{session.era.server} · MCP {session.era.version}".strip(" ·")), took())
        )
        offers: dict[str, dict[str, listing.Listed]] = {}
        try:
            async with asyncio.timeout(spec.connect_seconds):
                for kind in kinds:
                    try:
                        offers[kind] = listing.read(scrub.value(await session.list_offers(kind)), kind)
                    except (errors.UpstreamError, errors.ResultInvalid, listing.ListingInvalid):
                        if kind == listing.TOOL:
                            raise  # beside its tools, what it reads like may be missing
                if listing.RESOURCE in offers:
                    offers[listing.RESOURCE] = listing.with_views(
                        offers[listing.RESOURCE],
                        offers.get(listing.TEMPLATE, {}),
                        offers.get(listing.TOOL, {}).values(),
                    )
        except (errors.HubError, listing.ListingInvalid, SessionLost, TimeoutError) as error:
            words = scrub.text(str(error)) or "The tools were not listed in time."
            steps.append(Step(LIST, False, words, took()))
            return steps, {}
        found = {**offers, **await further.read(session, spec, scrub, readers or {})}
        steps.append(Step(LIST, True, ", ".join(list(offers.get(listing.TOOL, {}))[:50]), took()))
        return steps, found
    finally:
        if session is not None:
            await session.close()
