"""The table of the history: every edit and every deed on the audit itself, sealed with the calls."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.append_only import AppendOnly
from sessions_app.kit.fields import JSONText


class AuditEvent(AppendOnly):
    """Something that an operator, or the hub for one, did: to a definition, a key, a permission, the audit itself.

    `kind` is `<subject>.<deed>`; `before` and `after` hold the fields that changed: all of them where a row was
    created or deleted. Rows are sealed by `invocations.chain`.
    """

    id = models.BigAutoField(_("sequence"), primary_key=True)
    happened_at = models.DateTimeField(_("time"), default=timezone.now)
    kind = models.CharField(_("kind"), max_length=60)
    actor = models.CharField(_("principal"), max_length=64, blank=True)
    actor_label = models.CharField(_("by"), max_length=150, blank=True)
    via = models.CharField(_("way"), max_length=10, blank=True, help_text=_("admin, rest, cli, bundle or system."))
    subject_model = models.CharField(_("model"), max_length=100, blank=True)
    subject_id = models.CharField(_("row"), max_length=64, blank=True)
    subject_label = models.CharField(_("subject"), max_length=200, blank=True)
    before = JSONText(_("before"), null=True, blank=True)
    after = JSONText(_("after"), null=True, blank=True)
    reason = models.CharField(_("reason"), max_length=500, blank=True)

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
        """Give what was done to the subject: `created`, `changed`, `deleted` or another word."""
        return self.kind.partition(".")[2]
