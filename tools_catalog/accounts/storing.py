"""The steps of accounts as rows: each is one transaction, with its event, and notifies the other processes.

    wanted ──► connected ──► ended          a sign-in connects, again and again; a refusal by the issuer or the person
       ▲           │            │           ends; what a server asks for while nobody is connected is wanted
       └───────────┴── connected ◄┘

Whoever renews tokens claims the row first and writes only over the tokens that he began with.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from sessions_app import bus
from sessions_app.history import events
from sessions_app.history.events import Actor
from sessions_app.protocol.authorization import Challenge, IssuerMetadata, union
from sessions_app.protocol.authorization_flow import TokenAnswer
from sessions_app.protocol.json import Json
from tools_catalog.bindings import origin_of
from tools_catalog.models.accounts import CLAIM_SECONDS, SHARED, UpstreamAccount, UpstreamRegistration
from tools_catalog.models.services import HttpService
from tools_catalog.models.shown import PersonalList
from tools_catalog.models.upstream import McpConnection

AccountAt = McpConnection | HttpService
"""Where an account is."""
HUB: Final = Actor("hub")
_EARLY: Final = timedelta(seconds=30)
_MOST_STEP_UPS: Final = 3
"""Sign-ins for more scopes that a server may cause before somebody looks at it."""
State = UpstreamAccount.State


@dataclass(frozen=True, slots=True)
class Stored:
    """An account as it was read at one moment, its tokens in clear. Never kept longer than the change bus allows."""

    pk: int
    state: str
    generation: int
    access: str = ""
    has_refresh: bool = False
    expires_at: datetime | None = None
    scopes: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    failure: str = ""
    connected_at: datetime | None = None
    server: str = ""
    kind: str = ""
    refreshed_at: datetime | None = None
    is_bound: bool = False
    proof_key: str = ""
    """The key that its token is bound to."""
    id_token: str = ""

    @property
    def renews_at(self) -> datetime | None:
        """When the token is to be renewed: half a minute before its end, or the last quarter of a short life."""
        if self.expires_at is None:
            return None
        life = self.expires_at - self.refreshed_at if self.refreshed_at is not None else _EARLY
        return self.expires_at - min(_EARLY, max(life, timedelta()) / 4)

    @property
    def is_connected(self) -> bool:
        return self.state == State.CONNECTED

    def is_for(self, url: str, kind: str) -> bool:
        """Return whether it was connected for this server, and for this use."""
        return self.server == origin_of(url) and self.kind == kind


def load(of: str, place_id: int, principal: str) -> Stored | None:
    """Read an account; None where there is none. Raises SecretError."""
    rows = UpstreamAccount.objects.select_related("registration")
    row = rows.filter(**at(of, place_id), principal=principal).first()
    if row is None:
        return None
    key = row.registration.binding_key() if row.is_bound and row.registration is not None else ""
    return Stored(
        row.pk,
        row.state,
        row.generation,
        row.opened("access"),
        bool(row.refresh),
        row.expires_at,
        tuple(row.scopes.split()),
        tuple(row.wanted_scopes.split()),
        row.failure,
        row.connected_at,
        row.server,
        row.kind,
        row.refreshed_at,
        row.is_bound,
        key,
        row.opened("id_token"),
    )


def claim(pk: int, generation: int) -> UpstreamAccount | None:
    """Take the right to renew these tokens, for one process at a time; None where another has it, or they changed."""
    now = timezone.now()
    free = Q(claimed_until=None) | Q(claimed_until__lt=now)
    rows = UpstreamAccount.objects.filter(free, pk=pk, generation=generation)
    if not rows.update(claimed_until=now + timedelta(seconds=CLAIM_SECONDS)):
        return None
    return UpstreamAccount.objects.select_related("registration", "connection__identity", "service").get(pk=pk)


def release(pk: int, generation: int, failure: str) -> None:
    """Return the claim with unchanged tokens, and the reason."""
    rows = UpstreamAccount.objects.filter(pk=pk, generation=generation)
    rows.update(claimed_until=None, failure=failure[:500])


def renew(row: UpstreamAccount, answer: TokenAnswer) -> bool:
    """Store renewed tokens over those claimed with `row`; return whether they were still current."""
    refresh = row.sealed("refresh", answer.refresh_token) if answer.refresh_token else row.refresh
    rows = UpstreamAccount.objects.filter(pk=row.pk, generation=row.generation, state=State.CONNECTED)
    return bool(
        rows.update(
            access=row.sealed("access", answer.access_token),
            refresh=refresh,
            scopes=" ".join(answer.scopes),
            expires_at=_ends(answer),
            is_bound=answer.is_bound,
            id_token=_id_token(row, answer) or row.id_token,
            generation=F("generation") + 1,
            claimed_until=None,
            refreshed_at=timezone.now(),
            failure="",
        )
    )


@transaction.atomic
def connect(
    place: AccountAt, principal: str, registration: UpstreamRegistration, answer: TokenAnswer, actor: Actor
) -> UpstreamAccount:
    """Store the tokens of a new sign-in, whatever was there before."""
    row, _made = UpstreamAccount.objects.select_for_update().get_or_create(
        **at(place.of, place.pk), principal=principal
    )
    before: dict[str, Json] = {"state": row.state, "scopes": row.scopes, "account": row.account_name}
    _forget_lists(row)
    missing = set(row.wanted_scopes.split()) - set(answer.scopes)
    row.registration = registration
    row.server, row.kind = origin_of(place.url), place.account
    row.state = State.CONNECTED
    row.access = row.sealed("access", answer.access_token)
    row.refresh = row.sealed("refresh", answer.refresh_token)
    row.scopes = " ".join(answer.scopes)
    row.step_ups = row.step_ups + 1 if missing else 0
    row.id_token = _id_token(row, answer)
    row.expires_at, row.is_bound = _ends(answer), answer.is_bound
    row.generation += 1
    row.claimed_until = None
    row.failure = ""
    row.account_name = answer.name
    row.connected_by = actor.label[:150] or actor.principal
    row.connected_at = row.refreshed_at = timezone.now()
    row.save()
    after = {
        "state": row.state,
        "scopes": row.scopes,
        "issuer": registration.issuer,
        "for": principal or "all",
        "account": row.account_name,
    }
    _note("account.connected", place, actor, before, after)
    if principal == SHARED:  # approvals are bound to the sign-in
        bus.publish(bus.TOOLS_CHANGED)
    return row


@transaction.atomic
def end(pk: int, generation: int | None, why: str, actor: Actor = HUB) -> bool:
    """End an account, if it still has these tokens; without a generation whatever it has. Return whether it was
    ended.
    """
    rows = UpstreamAccount.objects.select_for_update().filter(pk=pk, state=State.CONNECTED)
    row = (rows if generation is None else rows.filter(generation=generation)).first()
    if row is None:
        return False
    before = {"state": row.state, "scopes": row.scopes}
    _forget_lists(row)
    row.state, row.access, row.refresh, row.claimed_until = State.ENDED, "", "", None
    row.id_token = ""
    row.expires_at, row.failure = None, why[:500]
    row.generation += 1
    row.save()
    kind = "account.ended" if actor is HUB else "account.disconnected"
    _note(kind, row.place, actor, before, {"state": row.state, "for": row.principal or "all"}, why)
    return True


def end_all_of(principal: str, why: str, actor: Actor = HUB) -> int:
    """End all accounts of a person whose access ends; return the number. Their issuers are not notified."""
    rows = UpstreamAccount.objects.filter(principal=principal, state=State.CONNECTED)
    return sum(end(pk, None, why, actor) for pk in rows.values_list("pk", flat=True))


def end_all_of_registration(registration_id: int, why: str) -> int:
    """End all accounts that were connected as this client."""
    rows = UpstreamAccount.objects.filter(registration_id=registration_id, state=State.CONNECTED)
    return sum(end(pk, None, why) for pk in rows.values_list("pk", flat=True))


def note_challenge(of: str, place_id: int, principal: str, challenge: Challenge) -> None:
    """Store a server's challenge for an account that is not connected."""
    row, _made = UpstreamAccount.objects.get_or_create(**at(of, place_id), principal=principal)
    _want(row, challenge)


def step_up(pk: int, challenge: Challenge) -> bool:
    """Store a server's demand for more scopes of a connected account; return whether it may lead to another sign-in."""
    row = UpstreamAccount.objects.get(pk=pk)
    if set(challenge.scopes) <= set(row.scopes.split()) or row.step_ups >= _MOST_STEP_UPS:
        UpstreamAccount.objects.filter(pk=pk).update(failure=_REFUSED)
        return False
    _want(row, challenge)
    return True


def _want(row: UpstreamAccount, challenge: Challenge) -> None:
    is_there = row.state == State.CONNECTED
    wanted = union(row.scopes.split(), row.wanted_scopes.split(), challenge.scopes) if is_there else challenge.scopes
    UpstreamAccount.objects.filter(pk=row.pk).update(
        wanted_scopes=" ".join(wanted), wanted_document=challenge.resource_metadata, wants_proof=challenge.wants_proof
    )


def registration_of(place: AccountAt, issuer: str) -> UpstreamRegistration | None:
    return UpstreamRegistration.objects.filter(**at(place.of, place.pk), issuer=issuer).first()


def account_at(place: AccountAt, principal: str) -> UpstreamAccount | None:
    rows = UpstreamAccount.objects.select_related("registration", "connection", "service")
    return rows.filter(**at(place.of, place.pk), principal=principal).first()


def at(of: str, place_id: int) -> dict[str, Any]:
    """Return the condition of rows that are at a place; `of` is connection or service."""
    return {f"{of}_id": place_id}


def kept_issuer(row: UpstreamRegistration) -> IssuerMetadata:
    """Return the issuer as it was read last."""
    return issuer_from(row.metadata)


def issuer_from(told: dict[str, Json]) -> IssuerMetadata:
    """Return the issuer stored by `issuer_row`."""
    members: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    return IssuerMetadata(**members)


def issuer_row(issuer: IssuerMetadata) -> dict[str, Json]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(issuer).items()}


def note_registered(row: UpstreamRegistration, actor: Actor) -> None:
    after = {"issuer": row.issuer, "manner": row.manner, "client_id": row.client_id}
    _note("account.registered", row.place, actor, None, after)


def _id_token(row: UpstreamAccount, answer: TokenAnswer) -> str:
    """Return the ID token to be stored; empty if no connection needs it."""
    if row.service_id is None or not answer.id_token:
        return ""
    is_needed = McpConnection.objects.filter(identity=row.service_id).exists()
    return row.sealed("id_token", answer.id_token) if is_needed else ""


def _forget_lists(row: UpstreamAccount) -> None:
    """Lists seen by the account are invisible to another one, or to nobody's."""
    if row.connection_id is not None and PersonalList.objects.forget(row.connection_id, row.principal):
        bus.publish(bus.TOOLS_CHANGED)


def _note(
    kind: str, place: AccountAt, actor: Actor, before: dict[str, Json] | None, after: dict[str, Json], reason: str = ""
) -> None:
    events.record(
        kind,
        actor=actor,
        model=type(place),
        subject=place.pk,
        label=place.slug,
        before=before,
        after=after,
        reason=reason,
    )


def _ends(answer: TokenAnswer) -> datetime | None:
    return None if answer.expires_in is None else timezone.now() + timedelta(seconds=answer.expires_in)


_REFUSED = "The server still refuses although the account has the scopes that it asked for."
