"""The tables of the history: every edit and every deed on the audit itself, sealed with the calls, and the edits that
wait for a second person."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.append_only import AppendOnly, AppendOnlyQuerySet
from sessions_app.kit.fields import JSONText
from sessions_app.workspaces.scope import AboutRows, OwnedQuerySet


class EventQuerySet(AppendOnlyQuerySet, OwnedQuerySet[Any]):  # type: ignore[override, unused-ignore]
    """Recorded events; in a workspace, those about its rows."""


class AuditEvent(AboutRows, AppendOnly):
    """Something that an operator, or the hub for one, did: to a definition, a key, a permission, the audit itself.

    `kind` is `<subject>.<deed>`; `before` and `after` hold the fields that changed: all of them where a row was
    created or deleted. Rows are sealed by `invocations.chain`.
    """

    id = models.BigAutoField(_("sequence"), primary_key=True)
    happened_at = models.DateTimeField(_("time"), default=timezone.now)
    kind = models.CharField(_("kind"), max_length=60)
    actor = models.CharField(_("principal"), max_length=64, blank=True)
    actor_label = models.CharField(_("by"), max_length=150, blank=True)
    via = models.CharField(_("source"), max_length=10, blank=True, help_text=_("admin, rest, cli, bundle or system."))
    subject_model = models.CharField(_("model"), max_length=100, blank=True)
    subject_id = models.CharField(_("row"), max_length=64, blank=True)
    subject_label = models.CharField(_("subject"), max_length=200, blank=True)
    before = JSONText(_("before"), null=True, blank=True)
    after = JSONText(_("after"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=500, blank=True)

    objects = EventQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        verbose_name = _("audit event")
        verbose_name_plural = _("configuration history")
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["kind", "-id"], name="audit_event_by_kind"),
            models.Index(fields=["actor", "-id"], name="audit_event_by_actor"),
            models.Index(fields=["happened_at"], name="audit_event_by_time"),
            # The history of one row.
            models.Index(fields=["subject_model", "subject_id", "-id"], name="audit_event_by_subject"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject_label}"

    @property
    def deed(self) -> str:
        """Return the action on the subject: `created`, `changed`, `deleted` or another word."""
        return self.kind.partition(".")[2]


LIFETIME = timedelta(days=7)
"""How long a change waits for a second person."""


def _end() -> datetime:
    return timezone.now() + LIFETIME


class WaitingChange(AboutRows):
    """An edit that one person must not make alone: a second one confirms or rejects it.

    `before` and `after` hold the guarded fields by name, for links the names of the linked rows.
    """

    class State(models.TextChoices):
        WAITING = "waiting", _("Waiting")
        CONFIRMED = "confirmed", _("Confirmed")
        REJECTED = "rejected", _("Rejected")
        REPLACED = "replaced", _("Replaced by a later change")

    subject_model = models.CharField(_("model"), max_length=100)
    subject_id = models.CharField(_("row"), max_length=64)
    subject_label = models.CharField(_("subject"), max_length=200)
    before = JSONText(_("before"))
    after = JSONText(_("after"))
    digest = models.CharField(_("fingerprint"), max_length=64)
    """Of the row that the change was proposed for: on another row nobody decided."""
    state = models.CharField(_("state"), max_length=10, choices=State, default=State.WAITING)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    via = models.CharField(_("source"), max_length=10)
    proposed_by = models.CharField(_("principal"), max_length=64)
    proposer_label = models.CharField(_("proposed by"), max_length=150)
    people = JSONText(default=list, editable=False)
    """The numbers of the people behind the proposer: none of them is the second person."""
    needed = models.PositiveSmallIntegerField(
        _("confirmations needed"),
        default=1,
        help_text=_("Two people, or one superuser, if nobody is known to answer for the key that proposed it."),
    )
    confirmations = JSONText(_("confirmed by"), default=list, editable=False)
    """[principal, name] of each person who has confirmed it, while more are needed."""
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True)
    answer = models.CharField(_("answer"), max_length=500, blank=True)
    created_at = models.DateTimeField(_("proposed"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"), default=_end)

    objects = OwnedQuerySet["WaitingChange"].as_manager()

    class Meta:
        verbose_name = _("waiting change")
        verbose_name_plural = _("waiting changes")
        ordering = ["-id"]
        default_permissions = ("view",)
        permissions = [("decide_waitingchange", _("Can confirm or reject other people's proposals"))]
        indexes = [
            models.Index(fields=["subject_model", "subject_id", "state"], name="waiting_change_by_subject"),
            models.Index(fields=["proposed_by", "state"], name="waiting_change_by_proposer"),
            models.Index(fields=["expires_at"], name="waiting_change_expiry"),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(state__in=["waiting", "confirmed", "rejected", "replaced"]),
                name="waiting_change_state_known",
            )
        ]

    def __str__(self) -> str:
        return f"{self.subject_label}: {', '.join(self.after)}"

    @property
    def is_open(self) -> bool:
        """Whether somebody can still decide it."""
        return self.state == self.State.WAITING and self.expires_at > timezone.now()

    @property
    def stage(self) -> str:
        """The state, or `expired` where nobody decided in time."""
        return "expired" if self.state == self.State.WAITING and not self.is_open else str(self.state)
