"""The hub's accounts at upstreams: its registration at an issuer, its tokens, pending sign-ins."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText
from tools_catalog import secrets
from tools_catalog.models.services import HttpService
from tools_catalog.models.upstream import McpConnection

SHARED = ""
"""The principal of an account that all callers share, and of the one that a connection's lists are read with."""
PENDING_SECONDS = 600
_MOST_PENDING = 20
"""Sign-ins that one person has under way; the oldest ends where there are more."""
CLAIM_SECONDS = 40
"""For one process to renew a token; another may try after that."""


_TOKENS = ("access", "refresh", "id_token")
_AT_ONE_PLACE = Q(connection__isnull=True, service__isnull=False) | Q(connection__isnull=False, service__isnull=True)


class _AtPlace(models.Model):
    """A row of one connection, or of one service."""

    connection_id: int | None
    service_id: int | None

    class Meta:
        abstract = True

    if TYPE_CHECKING:
        connection: Any
        service: Any

    @property
    def place(self) -> McpConnection | HttpService:
        found: McpConnection | HttpService | None = self.service if self.service_id is not None else self.connection
        assert found is not None
        return found

    @property
    def _place_key(self) -> str:
        """The binding of encrypted values."""
        return f"service {self.service_id}" if self.service_id is not None else str(self.connection_id)


class UpstreamRegistration(_AtPlace):
    """How one issuer knows the hub, for one connection or service. Nothing of it goes to another issuer."""

    class Manner(models.TextChoices):
        BY_HAND = "by_hand", _("entered by hand")
        DOCUMENT = "document", _("client metadata URL")
        DYNAMIC = "dynamic", _("registered by the hub")

    connection = models.ForeignKey(McpConnection, models.CASCADE, null=True, related_name="registrations")
    service = models.ForeignKey(HttpService, models.CASCADE, null=True, related_name="registrations")
    issuer = models.CharField(_("issuer"), max_length=500)
    metadata = JSONText(_("metadata"), default=dict)
    """Of the issuer as it was last read: the members of `protocol.authorization.IssuerMetadata`."""
    resource = models.CharField(_("resource"), max_length=2000, blank=True)
    """The resource of token requests; empty if it is not sent."""
    manner = models.CharField(_("method"), max_length=10, choices=Manner)
    client_id = models.CharField(_("client ID"), max_length=2000)
    method = models.CharField(_("client authentication"), max_length=30)
    redirect_uri = models.CharField(max_length=2000)
    """The redirect URI registered there."""
    ciphertext = models.TextField(editable=False, blank=True)
    """The secret that the issuer gave; one that was entered by hand is a `Secret`."""
    proof_key = models.TextField(editable=False, blank=True)
    """Encrypted: the private key that tokens are bound to (DPoP); empty where they are bearer tokens."""
    created_at = models.DateTimeField(_("registered"), default=timezone.now)

    class Meta:
        verbose_name = _("registration at an issuer")
        verbose_name_plural = _("registrations at issuers")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["connection", "issuer"], name="registration_one_per_issuer"),
            models.UniqueConstraint(fields=["service", "issuer"], name="registration_one_per_service"),
            models.CheckConstraint(condition=_AT_ONE_PLACE, name="registration_at_one_place"),
            models.CheckConstraint(
                condition=Q(manner__in=["by_hand", "document", "dynamic"]), name="registration_manner_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self._place_key} {self.issuer}"

    def set_secret(self, plain: str) -> None:
        """Store the issuer's secret; call save() afterwards."""
        self.ciphertext = secrets.encrypt(plain, aad=self._binding) if plain else ""

    def secret(self) -> str:
        """Return the secret; empty where there is none. Raises SecretError."""
        return secrets.decrypt(self.ciphertext, aad=self._binding) if self.ciphertext else ""

    def set_binding_key(self, pem: str) -> None:
        """Keep the key that tokens are bound to from now on; call save() afterwards."""
        self.proof_key = secrets.encrypt(pem, aad=self._key_binding) if pem else ""

    def binding_key(self) -> str:
        """Return that key as PEM; empty where there is none. Raises SecretError."""
        return secrets.decrypt(self.proof_key, aad=self._key_binding) if self.proof_key else ""

    def encrypt_anew(self) -> list[str]:
        stale = []
        if self.ciphertext and not secrets.is_current(self.ciphertext):
            self.set_secret(self.secret())
            stale.append("ciphertext")
        if self.proof_key and not secrets.is_current(self.proof_key):
            self.set_binding_key(self.binding_key())
            stale.append("proof_key")
        return stale

    @property
    def _binding(self) -> str:
        return secrets.binding("tools_catalog.UpstreamRegistration", f"{self._place_key} {self.issuer}", "secret")

    @property
    def _key_binding(self) -> str:
        return secrets.binding("tools_catalog.UpstreamRegistration", f"{self._place_key} {self.issuer}", "proof_key")


class UpstreamAccount(_AtPlace):
    """An account at an upstream, of one principal or of all. Tokens are encrypted; no page and no export has them.

    Its steps are verbs of `tools_catalog.accounts.storing`; whoever renews the tokens holds the claim.
    """

    class State(models.TextChoices):
        WANTED = "wanted", _("Not connected")
        CONNECTED = "connected", _("Connected")
        ENDED = "ended", _("Ended")

    connection = models.ForeignKey(McpConnection, models.CASCADE, null=True, related_name="accounts")
    service = models.ForeignKey(HttpService, models.CASCADE, null=True, related_name="accounts")
    principal = models.CharField(_("of"), max_length=64, blank=True)
    registration = models.ForeignKey(UpstreamRegistration, models.SET_NULL, null=True, related_name="accounts")
    server = models.CharField(_("server"), max_length=300, blank=True)
    """The origin that it was connected for: its tokens go nowhere else, wherever the connection leads by then."""
    kind = models.CharField(_("kind"), max_length=10, blank=True)
    """The connection's kind of account at that time: one that was lent to read lists makes nobody's calls."""
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WANTED)
    scopes = models.TextField(_("scopes"), blank=True)
    """That the tokens have."""
    wanted_scopes = models.TextField(_("scopes requested by the server"), blank=True)
    wanted_document = models.CharField(max_length=2000, blank=True)
    """The address of the server's metadata, as stated by it."""
    wants_proof = models.BooleanField(default=False)
    """The server asked for tokens that are bound to a key (DPoP)."""
    step_ups = models.PositiveIntegerField(default=0)
    """Sign-ins in a row that did not get all scopes that the server asked for."""
    access = models.TextField(editable=False, blank=True)
    refresh = models.TextField(editable=False, blank=True)
    id_token = models.TextField(editable=False, blank=True)
    """Kept if connections need it to identify the person to their issuers (ID-JAG)."""
    is_bound = models.BooleanField(default=False)
    """The access token is bound to the key of the registration, and worth nothing without a proof by it."""
    expires_at = models.DateTimeField(_("token expires"), null=True, blank=True)
    generation = models.PositiveIntegerField(default=0)
    """Grows with each set of tokens, so that a late writer writes nothing."""
    claimed_until = models.DateTimeField(null=True, blank=True)
    """A process renews the tokens, until then at most."""
    failure = models.CharField(_("last failure"), max_length=500, blank=True)
    account_name = models.CharField(_("name at the issuer"), max_length=200, blank=True)
    """The issuer's name for it; for people to read, never for decisions."""
    connected_by = models.CharField(_("connected by"), max_length=150, blank=True)
    connected_at = models.DateTimeField(_("connected"), null=True, blank=True)
    refreshed_at = models.DateTimeField(_("renewed"), null=True, blank=True)

    class Meta:
        verbose_name = _("account at an upstream")
        verbose_name_plural = _("accounts at upstreams")
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(fields=["connection", "principal"], name="account_one_per_principal"),
            models.UniqueConstraint(fields=["service", "principal"], name="account_one_per_service"),
            models.CheckConstraint(condition=_AT_ONE_PLACE, name="account_at_one_place"),
            models.CheckConstraint(condition=Q(state__in=["wanted", "connected", "ended"]), name="account_state_known"),
            models.CheckConstraint(
                condition=Q(state="connected") | Q(access="", refresh="", id_token=""),
                name="account_tokens_only_while_connected",
            ),
        ]

    def __str__(self) -> str:
        return f"{self._place_key} {self.principal}".strip()

    def sealed(self, field: str, plain: str) -> str:
        """Return a token as it is stored in `field`: access, refresh or id_token."""
        return secrets.encrypt(plain, aad=self._binding(field)) if plain else ""

    def opened(self, field: str) -> str:
        """Return a stored token; empty where there is none. Raises SecretError."""
        stored = str(getattr(self, field))
        return secrets.decrypt(stored, aad=self._binding(field)) if stored else ""

    def encrypt_anew(self) -> list[str]:
        stale = [name for name in _TOKENS if (kept := getattr(self, name)) and not secrets.is_current(kept)]
        for name in stale:
            setattr(self, name, self.sealed(name, self.opened(name)))
        return stale

    def _binding(self, field: str) -> str:
        return secrets.binding("tools_catalog.UpstreamAccount", f"{self._place_key} {self.principal}", field)


def shared_sign_ins(of: str, places: Iterable[int]) -> dict[int, str]:
    """Return which sign-in the shared account of each place is of: after another one, calls have other rights."""
    rows = UpstreamAccount.objects.filter(principal=SHARED, **{f"{of}_id__in": list(places)})
    return {place: f"{pk} {moment}" for place, pk, moment in rows.values_list(f"{of}_id", "pk", "connected_at")}


class PendingAuthorizationQuerySet(models.QuerySet["PendingAuthorization"]):
    def begin(self, *, state: str, person: str, **fields: Any) -> PendingAuthorization:
        """Store a new sign-in; the person's oldest end beyond a bound, and expired ones are deleted."""
        now = timezone.now()
        self.filter(expires_at__lt=now - timedelta(seconds=PENDING_SECONDS)).delete()
        own = self.filter(person=person).order_by("-pk").values_list("pk", flat=True)
        self.filter(pk__in=list(own[_MOST_PENDING - 1 :])).delete()
        ends = now + timedelta(seconds=PENDING_SECONDS)
        return self.create(state_digest=digest_of(state), person=person, expires_at=ends, **fields)

    def take(self, state: str, person: str) -> PendingAuthorization | None:
        """Return the sign-in of this state, once and in time, to its initiator; None to anybody else."""
        now = timezone.now()
        found = self.filter(state_digest=digest_of(state), person=person, used_at=None, expires_at__gt=now)
        if not found.update(used_at=now):
            return None
        return self.select_related("connection", "service", "registration").get(state_digest=digest_of(state))


class PendingAuthorization(_AtPlace):
    """A person who was sent to an issuer and is expected back."""

    state_digest = models.CharField(max_length=64, unique=True)
    person = models.CharField(max_length=64)
    """The principal of its initiator."""
    connection = models.ForeignKey(McpConnection, models.CASCADE, null=True, related_name="+")
    service = models.ForeignKey(HttpService, models.CASCADE, null=True, related_name="+")
    registration = models.ForeignKey(UpstreamRegistration, models.CASCADE, related_name="+")
    principal = models.CharField(max_length=64, blank=True)
    """Of the account that it is for."""
    sealed = models.TextField(editable=False)
    """Encrypted: the verifier, and the issuer as it was when the person was led there."""
    elicitation_id = models.CharField(max_length=500, blank=True)
    """Of the call that waits for it."""
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    objects = PendingAuthorizationQuerySet.as_manager()

    class Meta:
        verbose_name = _("sign-in at an issuer")
        verbose_name_plural = _("sign-ins at issuers")
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=_AT_ONE_PLACE, name="pending_at_one_place")]

    def __str__(self) -> str:
        return f"{self._place_key} {self.person}"

    @staticmethod
    def binding(state: str) -> str:
        return secrets.binding("tools_catalog.PendingAuthorization", digest_of(state), "sealed")


def digest_of(state: str) -> str:
    return hashlib.sha256(state.encode("utf-8", "replace")).hexdigest()
