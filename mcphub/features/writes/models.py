"""The stops of all writes: who stopped them, for whom, since when and why, and who allowed them again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history import events, source
from sessions_app.history.guarding import GuardedModel
from sessions_app.models import McpWorkspace


class WriteStopQuerySet(models.QuerySet["WriteStop"]):
    def in_force(self) -> WriteStopQuerySet:
        return self.filter(in_force=True).select_related("workspace").order_by("stopped_at")

    def stop(self, workspace: McpWorkspace | None, reason: str) -> tuple[WriteStop, bool]:
        """Stop writes; return the stop in force, and whether it is a new one. Raises ValidationError."""
        row = WriteStop(workspace=workspace, reason=reason.strip())
        row.change_reason = row.reason
        row.clean_fields()
        if (standing := self._standing(workspace)) is not None:
            return standing, False
        try:
            with transaction.atomic():
                row.save()
        except IntegrityError:  # somebody was faster
            if (standing := self._standing(workspace)) is None:
                raise
            return standing, False
        return row, True

    def _standing(self, workspace: McpWorkspace | None) -> WriteStop | None:
        return self.in_force().filter(workspace=workspace).first()


class WriteStop(GuardedModel):
    """One stop. While it is in force, no call of a tool is made that is not read-only."""

    RECORDED_AS = "write_stop"
    GUARDED: ClassVar[Mapping[str, Any]] = {"in_force": True}

    workspace = models.ForeignKey(
        McpWorkspace,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("workspace"),
        help_text=_("Stops calls that come by this workspace, and calls of its tools. Leave blank for everybody."),
    )
    workspace_id: int | None
    reason = models.CharField(
        _("reason"), max_length=300, help_text=_("Callers read it with each refused call, operators on every page.")
    )
    in_force = models.BooleanField(_("in force"), default=True)
    stopped_by = models.CharField(_("stopped by"), max_length=150, editable=False)
    stopped_at = models.DateTimeField(_("stopped"), default=timezone.now, editable=False)
    allowed_by = models.CharField(_("allowed by"), max_length=150, blank=True, editable=False)
    allowed_at = models.DateTimeField(_("allowed again"), null=True, blank=True, editable=False)

    objects: ClassVar[Any] = WriteStopQuerySet.as_manager()

    class Meta:
        verbose_name = _("write stop")
        verbose_name_plural = _("write stops")
        default_permissions = ("add", "change", "view")
        ordering = ["-stopped_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace"], condition=Q(in_force=True, workspace__isnull=False), name="write_stop_once"
            ),
            models.UniqueConstraint(
                fields=["in_force"], condition=Q(in_force=True, workspace__isnull=True), name="write_stop_once_for_all"
            ),
            models.CheckConstraint(
                condition=Q(in_force=True, allowed_at__isnull=True) | Q(in_force=False, allowed_at__isnull=False),
                name="write_stop_ends_once",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="write_stop_has_reason"),
        ]

    def __str__(self) -> str:
        return f"{self.workspace.slug}: {self.reason}" if self.workspace is not None else self.reason

    @property
    def where(self) -> str:
        """A sentence for operators."""
        if self.workspace is None:
            return _t("Writes are stopped for everybody.")
        return _t("Writes are stopped in the workspace %(name)s.") % {"name": self.workspace.slug}

    def clean(self) -> None:
        if self.in_force and self.allowed_at is not None:
            raise ValidationError(_("This stop is over. To stop writes again, make a new one."))
        self._note_end()

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._state.adding:
            self.stopped_by = events.actor_of(source.current().user).label[:150]
        super().save(*args, **kwargs)

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        """Note the end where it is not held back."""
        super().hold_back(only)
        if self._held:
            self.allowed_by, self.allowed_at = "", None
        self._note_end()

    def _note_end(self) -> None:
        if not self.in_force and self.allowed_at is None:
            author = getattr(self, "change_author", None) or source.current().user
            self.allowed_by, self.allowed_at = events.actor_of(author).label[:150], timezone.now()

    def allow(self, reason: str) -> bool:
        """Allow writes again; return whether they are, and do not wait for a second person. Raises ValidationError."""
        with transaction.atomic():
            if not type(self).objects.select_for_update(of=("self",)).filter(pk=self.pk, in_force=True).exists():
                raise ValidationError(_t("This stop is over already."))
            self.in_force = False
            self.change_reason = self.change_reason or reason.strip()[:500]
            self.save()
        return not self.in_force
