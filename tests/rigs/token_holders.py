"""Callers that hold access tokens of people, and renew them while their hub is killed.

A holder is one client of one person: it was let in at the hub's own authorization server, has a token for one
endpoint, and trades its refresh token for the next pair every few seconds, sometimes twice at once. What it was told
it keeps: `problems` are contradictions that it saw itself, `check` holds the rest against the hub's rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx2

from tests.wire.signing_in import CALLBACK, Client, csrf_of, make_person, told_to
from tests.wire.speech import BOTH, META, MODERN

GOAL_SECONDS = 0.25
"""After which no worker takes a token that was revoked."""
LATEST_SECONDS = 2.0
"""The rig fails above this: a loaded machine schedules late."""
_LEAST_SECONDS = 2.1
"""Between two renewals: the hub gives 30 pairs a minute to one client of one person."""
_MOST_SECONDS = 4.0
_PATIENCE_SECONDS = 20
_CONNECTIONS = 12
"""Over which a revoked token is tried: the operating system spreads them over the workers."""
_TRY_LATER = (429, 503)
LAST = "last"
"""The program that shows tokens until they are refused."""


class Target(Protocol):
    """A hub that runs, of either kind that rigs have."""

    url: str

    def operate(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> Any: ...


def make_people(names: Sequence[str]) -> list[dict[str, Any]]:
    """Make people who are logged in, in the process beside the hub."""
    return [make_person(name) for name in names]


@dataclass
class Holder:
    """One client that a person let in. `text` is its access token, None while it has none."""

    url: str
    person: str
    cookies: Mapping[str, str]
    principal: str
    client: Client
    endpoint: str
    rng: random.Random
    address: str = ""
    """Of this machine, from which it asks; the usual one where it is empty."""
    text: str = ""
    told: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    """Access tokens that were replaced: whoever shows one is refused."""
    unanswered: int = 0
    """Renewals of which nothing was heard: the hub may have made them or not."""

    def __post_init__(self) -> None:
        self._refresh = ""
        self._settled = asyncio.Event()
        self._hurry = asyncio.Event()

    @property
    def name(self) -> str:
        return f"{self.client.name} of {self.person}"

    def hurry(self) -> None:
        """Let the next renewal come at once, as far as the hub's bound lets it."""
        self._hurry.set()

    async def keep(self, stopping: asyncio.Event) -> None:
        """Sign in, and renew until it is time to stop."""
        async with self.connection() as http:
            await self._sign_in(http)
            while not stopping.is_set():
                began = time.monotonic()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), self.rng.uniform(_LEAST_SECONDS, _MOST_SECONDS))
                await asyncio.sleep(max(0.0, began + _LEAST_SECONDS - time.monotonic()))
                self._hurry.clear()
                if not stopping.is_set():
                    await self.renew(http)

    async def renewed(self, text: str) -> bool:
        """Return whether a token that was refused had been replaced; else that is a problem, for it was good."""
        await self._settled.wait()
        if text != self.text:
            return True
        self.problems.append(f"{self.name}: a token in hand was refused")
        return False

    async def give_back(self, http: httpx2.AsyncClient) -> None:
        """Revoke the access token, as a program does that is done; return when the hub has said so."""
        answer = await http.post("/oauth/revoke/", data={"token": self.text, "client_id": self.client.id})
        if answer.status_code != 200:
            self.problems.append(f"{self.name} could not give its token back: {answer.status_code} {answer.text[:200]}")

    async def renew(self, http: httpx2.AsyncClient) -> None:
        """Trade the refresh token for the next pair, or sign in anew where the hub says that it is over."""
        self._settled.clear()
        try:
            lost = False
            while True:
                copies = 2 if self.rng.random() < 0.25 else 1
                answers = await asyncio.gather(*(self._redeem(http) for _ in range(copies)))
                won = [answer for answer in answers if answer is not None and answer.status_code == 200]
                lost |= None in answers
                if None in answers:
                    self.unanswered += 1
                if len(won) > 1:
                    self.problems.append(f"{self.name}: one refresh token was redeemed twice")
                if won:
                    self.told["renewed"] += 1
                    self.told["renewed by the old token, after silence"] += lost
                    self._take(won[0])
                    return
                if any(answer is not None and _error(answer) == "invalid_grant" for answer in answers):
                    self.told["signed in anew after silence"] += 1
                    if not lost:
                        self.problems.append(f"{self.name}: a refresh token in hand was refused")
                    await self._sign_in(http)
                    return
                self._judge(answers)
                await asyncio.sleep(0.1)
        finally:
            self._settled.set()

    def connection(self) -> httpx2.AsyncClient:
        """Return a client with the cookies of the person's login, and connections of its own."""
        transport = httpx2.AsyncHTTPTransport(local_address=self.address or None)
        return httpx2.AsyncClient(
            base_url=self.url, cookies=dict(self.cookies), timeout=_PATIENCE_SECONDS, transport=transport
        )

    async def _sign_in(self, http: httpx2.AsyncClient) -> None:
        """Let the person say yes, as often as it takes a hub that is killed meanwhile."""
        while True:
            if await self._signed_in(http):
                return
            await asyncio.sleep(0.1)

    async def _signed_in(self, http: httpx2.AsyncClient) -> bool:
        """Let the person say yes once more; give whether that led to tokens."""
        address = self.client.address(self.endpoint)
        try:
            page = await http.get(address)
            if page.status_code == 200:
                page = await http.post(address, data={"csrfmiddlewaretoken": csrf_of(page), "allow": "1"})
            if page.status_code != 302:
                self._judge([page])
                return False
            asked = {
                "grant_type": "authorization_code",
                "code": told_to(page)["code"],
                "client_id": self.client.id,
                "redirect_uri": CALLBACK,
                "code_verifier": self.client.verifier,
                "resource": f"{self.url}{self.endpoint}",
            }
            answer = await http.post("/oauth/token/", data=asked)
        except httpx2.HTTPError:
            return False
        if answer.status_code != 200:
            if _error(answer) != "invalid_grant":  # the code was redeemed, and the hub died before it said so
                self._judge([answer])
            return False
        self.told["signed in"] += 1
        self._take(answer)
        self._settled.set()
        return True

    async def _redeem(self, http: httpx2.AsyncClient) -> httpx2.Response | None:
        asked = {"grant_type": "refresh_token", "refresh_token": self._refresh, "client_id": self.client.id}
        try:
            return await http.post("/oauth/token/", data=asked)
        except httpx2.HTTPError:
            return None

    def _take(self, answer: httpx2.Response) -> None:
        found = answer.json()
        if self.text:
            self.retired.append(self.text)
        self.text, self._refresh = found["access_token"], found["refresh_token"]

    def _judge(self, answers: Sequence[httpx2.Response | None]) -> None:
        """A hub under way may say that it is busy; anything else is wrong."""
        for answer in answers:
            if answer is not None and answer.status_code in _TRY_LATER:
                self.told[f"told to try later: {answer.status_code}"] += 1
            elif answer is not None:
                self.problems.append(f"{self.name} was told {answer.status_code}: {answer.text[:200]}")


def _error(answer: httpx2.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return ""


def holders(
    hub: Target, endpoints: Sequence[str], rng: random.Random, *, people: int = 4, address: str = ""
) -> list[Holder]:
    """Make a holder for each endpoint: clients of their own, of few people. None has a token before `keep`."""
    names = [f"person-{number}" for number in range(people)]
    made = hub.operate(make_people, names)
    found = []
    for number, endpoint in enumerate(endpoints):
        person = made[number % people]
        with Client(hub, f"Rig client {number}") as client:
            cookies = {person["named"]: person["cookie"]}
            principal = f"user:{person['id']}"
            name = names[number % people]
            found.append(
                Holder(hub.url, name, cookies, principal, client, endpoint, random.Random(rng.random()), address)
            )
    return found


# What the hub's rows say --------------------------------------------------------------------------------


def check(held: Sequence[Holder], query: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
    """Return what contradicts: a refresh token that led to two pairs, a renewal that is not on record once."""
    problems = [problem for holder in held for problem in holder.problems]
    twice = "SELECT token_family FROM oauth2_provider_refreshtoken WHERE revoked IS NULL GROUP BY token_family"
    problems += [
        f"the sign-in {family} has two live refresh tokens" for (family,) in query(f"{twice} HAVING count(*) > 1")
    ]
    words = "SELECT subject_label, actor, kind, count(*) FROM sessions_app_auditevent WHERE kind LIKE 'token.%'"
    recorded: dict[tuple[str, str], Counter[str]] = {}
    for label, actor, kind, count in query(f"{words} GROUP BY subject_label, actor, kind"):
        recorded.setdefault((label, actor), Counter())[kind] = count
    for holder in held:
        found = recorded.get((holder.client.name, holder.principal), Counter())
        known = holder.told["renewed"]
        if not known <= found["token.refreshed"] <= known + holder.unanswered:
            problems.append(
                f"{holder.name} renewed {known} times, {holder.unanswered} without an answer; "
                f"on record are {found['token.refreshed']}"
            )
        if found["token.replayed"] > holder.unanswered:
            problems.append(f"{holder.name} is on record as replayed {found['token.replayed']} times")
    return problems


async def revoked_at_once(held: Sequence[Holder]) -> tuple[list[str], float]:
    """Revoke what holders of `/mcp` have while it is used over many connections.

    Gives problems, and the seconds until the last call that was sent after the revocation, and was let in. Before that
    each connection calls `count` as the program `LAST`, so that the record says which workers were asked.
    """
    problems = []
    async with contextlib.AsyncExitStack() as stack:
        connections = [
            (holder, await stack.enter_async_context(holder.connection()))
            for holder in held
            for _ in range(_CONNECTIONS)
        ]
        names = [f"{LAST}-{number}" for number in range(len(connections))]
        first = await asyncio.gather(
            *(_status(http, holder.text, name) for (holder, http), name in zip(connections, names, strict=True))
        )
        problems += [f"a good token was answered with {status}" for status in first if status != 200]
        revoked_at = 0.0

        async def last_taken(holder: Holder, http: httpx2.AsyncClient) -> float:
            taken = 0.0
            while True:
                sent_at = time.monotonic()
                status = await _status(http, holder.text)
                if status == 401:
                    return taken
                taken = sent_at
                if status != 200 or (revoked_at and sent_at - revoked_at > 10):
                    problems.append(f"{holder.name}: a revoked token was answered with {status}")
                    return taken

        tries = [asyncio.create_task(last_taken(*each)) for each in connections]
        await asyncio.gather(*(holder.give_back(http) for holder, http in connections[::_CONNECTIONS]))
        revoked_at = time.monotonic()
        latest = max(await asyncio.gather(*tries)) - revoked_at
        late = await asyncio.gather(*(_status(connections[0][1], text) for holder in held for text in holder.retired))
        problems += [f"a token that was replaced was answered with {status}" for status in late if status != 401]
    if latest > LATEST_SECONDS:
        problems.append(f"a revoked token was taken {latest:.2f} s later")
    return problems, max(0.0, latest)


async def _status(http: httpx2.AsyncClient, text: str, counted: str = "") -> int:
    """List tools, or call `count`; give the status of the answer."""
    method = "tools/call" if counted else "tools/list"
    params: dict[str, Any] = {"name": "count", "arguments": {"name": counted}} if counted else {}
    params["_meta"] = {
        f"{META}protocolVersion": MODERN,
        f"{META}clientInfo": {"name": LAST, "version": "1"},
        f"{META}clientCapabilities": {},
    }
    headers = {
        "authorization": f"Bearer {text}",
        "accept": BOTH,
        "mcp-protocol-version": MODERN,
        "mcp-method": method,
        **({"mcp-name": "count"} if counted else {}),
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return (await http.post("/mcp", json=body, headers=headers)).status_code
