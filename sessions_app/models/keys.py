"""API keys: their owners, scopes and ends."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app import accountable
from sessions_app.history import events
from sessions_app.history.guarding import GuardedModel, needs_second_person
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
    """Return whether a person may have a key of this scope. `workspace`: of the workspace that the key is for."""
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


class ApiKey(OwnedModel, GuardedModel):
    """A bearer key. Only its prefix and the SHA-256 of the whole are kept; the text is shown once."""

    RECORDED_AS = "key"
    DERIVED = ("accountable",)
    UNRECORDED = ("last_used_at", "reminded_of")
    HIDDEN = ("secret_hash", "previous_hash")

    class Scope(models.TextChoices):
        TOOLS_LIST = "tools:list", _("List tools")
        TOOLS_CALL = "tools:call", _("Call tools")
        AUDIT_READ = "audit:read", _("Read the audit log")
        CHAT = "chat", _("Chat")
        CATALOG_WRITE = "catalog:write", _("Change the catalogue")
        CALLS_REPLAY = "calls:replay", _("Replay recorded calls")
        KEYS_WRITE = "keys:write", _("Create and revoke keys")
        PEOPLE_WRITE = "people:write", _("Create and disable people (SCIM)")

    DEFAULT_SCOPES = [Scope.TOOLS_LIST.value, Scope.TOOLS_CALL.value]

    name = models.CharField(_("name"), max_length=100, help_text=_("Who or what will use the key."))
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="api_keys",
        verbose_name=_("person"),
        help_text=_(
            "The key's owner: calls count as this person's, with tools of the groups that both have, and the "
            "key ends with the person. Leave blank for a service account. It can't be changed later."
        ),
    )
    service = models.CharField(
        _("service account"),
        max_length=100,
        blank=True,
        help_text=_("The program that uses the key, if no person owns it. Several keys can name the same one."),
    )
    prefix = models.CharField(_("prefix"), max_length=16, unique=True, editable=False)
    secret_hash = models.CharField(max_length=64, editable=False)
    previous_hash = models.CharField(max_length=64, blank=True, editable=False)
    previous_until = models.DateTimeField(_("old key works until"), null=True, blank=True, editable=False)
    scopes = JSONText(_("scopes"), default=list, blank=True)
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), blank=True, help_text=_("Tools reserved to these groups become visible.")
    )
    calls_per_minute = models.PositiveIntegerField(
        _("calls per minute"), null=True, blank=True, help_text=_("Leave blank for no limit.")
    )
    recorded_mib_per_day = models.PositiveIntegerField(
        _("MiB recorded per day"),
        null=True,
        blank=True,
        validators=[MaxValueValidator(MOST_MIB_PER_DAY)],
        help_text=_("How much of the audit log its calls can fill. Leave blank for the default, 0 for no limit."),
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

    _wanted: list[str] | None = None
    """Who is to answer for it, once it is saved."""

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
                violation_error_message=_("A key belongs to a person or to a service account, not both."),
            ),
            models.CheckConstraint(
                condition=Q(owner=None) | Q(recorded_mib_per_day=None),
                name="key_of_person_shares_quota",
                violation_error_message=_("A person's recording limit covers all their keys: leave this blank."),
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
            words = _("A workspace key can't have %(names)s: that covers the whole hub.")
            raise ValidationError({"scopes": words % {"names": ", ".join(beyond)}})

    def save(self, *args: Any, **kwargs: Any) -> None:
        is_new = self._state.adding
        with transaction.atomic():
            super().save(*args, **kwargs)
            if is_new:
                accountable.note_text_given(self.credential, also=[self.owner_id, self.created_by_id])
            self._name_accountable()

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        """Without an unknown person, or a known one, one person is enough where two were needed."""
        super().hold_back(only)
        if self._wanted is None or self._state.adding or not needs_second_person():
            return
        before = accountable.names_of(self.credential)
        if not set(before) <= set(self._wanted):
            self.hold("accountable", before)

    @property
    def accountable(self) -> list[str]:
        """The user names of those who answer for it; `?` for an unknown person. Others come into force on save."""
        return accountable.names_of(self.credential) if self._wanted is None else self._wanted

    @accountable.setter
    def accountable(self, names: list[str]) -> None:
        self._wanted = sorted(set(names))

    def _name_accountable(self) -> None:
        wanted, self._wanted = self._wanted, None
        before = accountable.names_of(self.credential)
        if wanted is None or wanted == before:
            return
        accountable.name(self.credential, accountable.found(wanted))
        events.record(
            "key.accountable",
            model=ApiKey,
            subject=self.pk,
            label=str(self),
            before={"accountable": before},
            after={"accountable": wanted},
            reason=self.change_reason[:300],
        )

    @property
    def credential(self) -> str:
        return f"key:{self.pk}"

    @property
    def principal(self) -> str:
        """The caller in the audit: the key's person, else the key itself."""
        return f"user:{self.owner_id}" if self.owner_id is not None else f"key:{self.pk}"

    @property
    def caller_label(self) -> str:
        return self.name if self.owner is None else f"{self.owner.get_username()} via {self.name} (key {self.pk})"

    def held_scopes(self) -> list[str]:
        """Return the key's current scopes: for a person's key, only those that the person has as well. Asks the
        database.
        """
        return [each for each in self.scopes if self.owner is None or may_hold(self.owner, each, self.workspace_id)]

    def held_groups(self) -> models.QuerySet[Group]:
        """Return the groups whose tools the key sees now: for a person's key, those of the person."""
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
        """Return the key's new text; the old one works for `overlap`, an earlier one no longer."""
        token = f"{self.prefix}_{secrets.token_urlsafe(32)}"
        self.previous_hash = self.secret_hash if overlap else ""
        self.previous_until = timezone.now() + overlap if overlap else None
        self.secret_hash = self.hash(token)
        with transaction.atomic():
            self.save(update_fields=["secret_hash", "previous_hash", "previous_until"])
            accountable.note_text_given(self.credential, also=[self.owner_id])
        return token

    def hashes(self, now: datetime | None = None) -> list[str]:
        """Return the hashes of the texts that work now."""
        overlaps = self.previous_until is not None and self.previous_until > (now or timezone.now())
        return [self.secret_hash, *([self.previous_hash] if overlaps else [])]

    def is_usable(self, now: datetime | None = None) -> bool:
        now = now or timezone.now()
        is_over = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not is_over and (self.owner is None or self.owner.is_active)
