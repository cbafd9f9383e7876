"""API keys: who holds one, what it may do, until when."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.recording import RecordedModel
from sessions_app.kit.fields import JSONText
from sessions_app.workspaces.roles import rights_in
from sessions_app.workspaces.scope import OwnedModel, OwnedQuerySet, current

MOST_MIB_PER_DAY = 2_000_000
"""Of the audit that one caller may fill: about 2 TiB."""


NEEDED: Mapping[str, str] = {
    "audit:read": "invocations.read_bodies",
    "calls:replay": "invocations.replay_call",
    "catalog:write": "tools_catalog.change_mcptooldefinition",
    "keys:write": "sessions_app.add_apikey",
    "people:write": "auth.change_user",
}
"""Scope -> permission without which nobody may hand it out, and a person's key loses it: a key does no more than its
person."""


OF_WORKSPACE = frozenset({"tools:list", "tools:call", "chat", "audit:read"})
"""Scopes that a key of a workspace may have: the others are about the whole hub."""


def may_hold(user: User | AnonymousUser, scope: str, workspace: int | None = None) -> bool:
    """Whether a person may have a key of this scope. `workspace`: of the workspace that the key is for."""
    if scope not in NEEDED or user.has_perm(NEEDED[scope]):
        return True
    return workspace is not None and NEEDED[scope] in rights_in(user, workspace)


class ApiKeyQuerySet(OwnedQuerySet["ApiKey"]):
    def usable(self) -> ApiKeyQuerySet:
        """Those that open something now: neither revoked nor over, their person not disabled."""
        alive = Q(expires_at=None) | Q(expires_at__gt=timezone.now())
        return self.filter(alive, Q(owner=None) | Q(owner__is_active=True), revoked_at=None)

    def revoke(self, reason: str = "") -> int:
        """End the keys one by one, so that each lands in the history; give the count."""
        changed = 0
        for key in self.filter(revoked_at__isnull=True):
            key.revoked_at = timezone.now()
            key.change_reason = reason
            key.save(update_fields=["revoked_at"])
            changed += 1
        return changed


class ApiKey(OwnedModel, RecordedModel):
    """A bearer key. Only its prefix and the SHA-256 of the whole are kept; the text is shown once."""

    RECORDED_AS = "key"
    UNRECORDED = ("last_used_at", "reminded_of")
    HIDDEN = ("secret_hash", "previous_hash")

    class Scope(models.TextChoices):
        TOOLS_LIST = "tools:list", _("List tools")
        TOOLS_CALL = "tools:call", _("Call tools")
        AUDIT_READ = "audit:read", _("Read the audit")
        CHAT = "chat", _("Chat")
        CATALOG_WRITE = "catalog:write", _("Change the catalogue")
        CALLS_REPLAY = "calls:replay", _("Make recorded calls again")
        KEYS_WRITE = "keys:write", _("Make and revoke keys")
        PEOPLE_WRITE = "people:write", _("Make and disable people (SCIM)")

    DEFAULT_SCOPES = [Scope.TOOLS_LIST.value, Scope.TOOLS_CALL.value]

    name = models.CharField(_("name"), max_length=100, help_text=_("Who or what holds the key."))
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="api_keys",
        verbose_name=_("person"),
        help_text=_(
            "Whose key it is: its calls are this person's, with tools of the groups that both have, and it ends with "
            "the person. Empty: the key of a service. Cannot be changed later."
        ),
    )
    service = models.CharField(
        _("service account"),
        max_length=100,
        blank=True,
        help_text=_("The program that the key is for, where it is no person's. Several keys may name the same one."),
    )
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=64, editable=False)
    previous_hash = models.CharField(max_length=64, blank=True, editable=False)
    previous_until = models.DateTimeField(_("old text works until"), null=True, blank=True, editable=False)
    scopes = JSONText(_("scopes"), default=list, blank=True)
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), blank=True, help_text=_("Tools reserved to these groups are visible.")
    )
    calls_per_minute = models.PositiveIntegerField(
        _("calls per minute"), null=True, blank=True, help_text=_("Empty: no limit.")
    )
    recorded_mib_per_day = models.PositiveIntegerField(
        _("MiB on record per day"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(MOST_MIB_PER_DAY)],
        help_text=_("What its calls may fill of the audit. Empty: what every caller may, 0: no limit."),
    )
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, editable=False, verbose_name=_("created by")
    )
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    reminded_of = models.DateTimeField(null=True, blank=True, editable=False)
    """The end of which an event has warned."""
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True, editable=False)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True, editable=False)

    objects = ApiKeyQuerySet.as_manager()

    class Meta:
        verbose_name = _("API key")
        verbose_name_plural = _("API keys")
        ordering = ["name", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(previous_hash="", previous_until=None)
                | (~Q(previous_hash="") & Q(previous_until__isnull=False)),
                name="key_old_text_ends",
            ),
            models.CheckConstraint(
                condition=Q(owner=None) | Q(service=""),
                name="key_of_person_or_service",
                violation_error_message=_("A key belongs to a person or to a service account, not to both."),
            ),
            models.CheckConstraint(
                condition=Q(owner=None) | Q(recorded_mib_per_day=None),
                name="key_of_person_shares_quota",
                violation_error_message=_(
                    "What a person's calls may fill of the audit holds for all their keys: leave the limit out."
                ),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    def clean(self) -> None:
        unknown = [each for each in self.scopes if each not in self.Scope.values]
        if not isinstance(self.scopes, list) or unknown:
            raise ValidationError(
                {
                    "scopes": _("Unknown scopes: %(names)s. Known: %(known)s.")
                    % {"names": ", ".join(map(str, unknown)), "known": ", ".join(self.Scope.values)}
                }
            )
        is_owned = self.workspace_id is not None or current() is not None
        if is_owned and (beyond := [each for each in self.scopes if each not in OF_WORKSPACE]):
            words = _("A key of a workspace cannot have %(names)s: that is about the whole hub.")
            raise ValidationError({"scopes": words % {"names": ", ".join(beyond)}})

    @property
    def principal(self) -> str:
        """The caller as the audit writes it: the person whose key it is, else the key itself."""
        return f"user:{self.owner_id}" if self.owner_id is not None else f"key:{self.pk}"

    @property
    def caller_label(self) -> str:
        return self.name if self.owner is None else f"{self.owner.get_username()} via {self.name} (key {self.pk})"

    def held_scopes(self) -> list[str]:
        """Give what the key may do now: of a person's key what that person may do as well. Asks the database."""
        return [each for each in self.scopes if self.owner is None or may_hold(self.owner, each, self.workspace_id)]

    def held_groups(self) -> models.QuerySet[Group]:
        """Give the groups whose tools the key sees now: of a person's key those that the person is in."""
        return self.groups.all() if self.owner_id is None else self.groups.filter(user=self.owner_id)

    @staticmethod
    def hash(token: str) -> str:
        return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()

    @classmethod
    def issue(
        cls, name: str, *, reason: str = "", groups: Iterable[Group] = (), **fields: object
    ) -> tuple[ApiKey, str]:
        """Make and save a key; give it with its text, which cannot be had again. Raises ValidationError."""
        prefix = f"mcph_{secrets.token_hex(4)}"
        token = f"{prefix}_{secrets.token_urlsafe(32)}"
        key = cls(name=name, prefix=prefix, secret_hash=cls.hash(token), **fields)
        key.change_reason = reason
        key.full_clean()
        with transaction.atomic():
            key.save()
            if groups := list(groups):
                key.groups.set(groups)
        return key, token

    def rotate(self, overlap: timedelta = timedelta()) -> str:
        """Give the key a new text; the old one works as long as `overlap` says, one before it no longer."""
        token = f"{self.prefix}_{secrets.token_urlsafe(32)}"
        self.previous_hash = self.secret_hash if overlap else ""
        self.previous_until = timezone.now() + overlap if overlap else None
        self.secret_hash = self.hash(token)
        self.save(update_fields=["secret_hash", "previous_hash", "previous_until"])
        return token

    def hashes(self, now: datetime | None = None) -> list[str]:
        """Give the hashes of the texts that work now."""
        overlaps = self.previous_until is not None and self.previous_until > (now or timezone.now())
        return [self.secret_hash, *([self.previous_hash] if overlaps else [])]

    def is_usable(self, now: datetime | None = None) -> bool:
        now = now or timezone.now()
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_over and (self.owner is None or self.owner.is_active)
