"""The tables of the audit's proof: sealed blocks, removals by retention, and holds."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.recording import RecordedModel
from sessions_app.kit.append_only import AppendOnly
from sessions_app.protocol.json import Json


class AuditBlock(AppendOnly):
    """Rows that were sealed together, and the signed root of the log up to them.

    Of each table, a block holds the rows with IDs after the last block's, through its own. `nodes` are the roots
    (hex, one after another) of the subtrees that the block completes in the tree over all blocks, so that any proof
    reads a few rows.
    """

    number = models.BigIntegerField(_("block"), primary_key=True)
    header = models.TextField(_("header"), help_text=_("Canonical JSON; its hash is the leaf of the log."))
    envelopes_through = models.BigIntegerField()
    invocations_through = models.BigIntegerField()
    events_through = models.BigIntegerField()
    first_position = models.BigIntegerField(_("first position"))
    row_count = models.PositiveIntegerField(_("rows"))
    sealed_at = models.DateTimeField(_("sealed"))
    key_id = models.CharField(_("key"), max_length=8)
    tree_root = models.CharField(_("root"), max_length=64)
    signature = models.CharField(_("signature"), max_length=100)
    nodes = models.TextField()

    class Meta:
        verbose_name = _("audit block")
        verbose_name_plural = _("audit blocks")
        ordering = ["-number"]
        constraints = [models.CheckConstraint(condition=Q(number__gte=0), name="audit_block_numbered")]
        indexes = [models.Index(fields=["sealed_at"], name="audit_block_by_time")]

    def __str__(self) -> str:
        return str(self.number)


class AuditLeaves(AppendOnly):
    """The ordered leaves of a block: 8 bytes of id and 32 of hash for each row. Goes with the rows."""

    block = models.OneToOneField(AuditBlock, models.DO_NOTHING, primary_key=True, db_constraint=False)
    leaves = models.BinaryField()

    def __str__(self) -> str:
        return str(self.block_id)


class SequenceMark(models.Model):
    """Between which moments the calls of a stretch of the sequence started (`marks.py`). No evidence."""

    number = models.BigIntegerField(primary_key=True, help_text="The stretch: sequence // 4096.")
    least_started = models.DateTimeField()
    most_started = models.DateTimeField()
    through = models.BigIntegerField(help_text="All calls of the stretch through this one are marked.")

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return str(self.number)


class AuditTombstone(AppendOnly):
    """A removal by retention: all rows of some blocks, or their bodies. Signed by the hub's key."""

    class Kind(models.TextChoices):
        ROWS = "rows", _("Rows")
        BODIES = "bodies", _("Bodies")

    kind = models.CharField(_("kind"), max_length=6, choices=Kind)
    first_block = models.BigIntegerField(_("first block"))
    last_block = models.BigIntegerField(_("last block"))
    envelopes_after = models.BigIntegerField()
    envelopes_through = models.BigIntegerField()
    invocations_after = models.BigIntegerField()
    invocations_through = models.BigIntegerField()
    events_after = models.BigIntegerField()
    events_through = models.BigIntegerField()
    row_count = models.PositiveBigIntegerField(_("rows"))
    text = models.TextField(_("text"), help_text=_("Canonical JSON, as it is signed."))
    signature = models.CharField(_("signature"), max_length=100)
    removed_at = models.DateTimeField(_("removed"))

    class Meta:
        verbose_name = _("tombstone")
        verbose_name_plural = _("tombstones")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(kind__in=["rows", "bodies"]), name="audit_tombstone_kind_known"),
            models.CheckConstraint(condition=Q(last_block__gte=F("first_block")), name="audit_tombstone_spans"),
        ]
        # For the rules in the database, which look up what covers a row.
        indexes = [
            models.Index(fields=["kind", "envelopes_through", "envelopes_after"], name="audit_tombstone_envelope"),
            models.Index(
                fields=["kind", "invocations_through", "invocations_after"], name="audit_tombstone_invocation"
            ),
            models.Index(fields=["kind", "events_through", "events_after"], name="audit_tombstone_event"),
            models.Index(fields=["kind", "last_block", "first_block"], name="audit_tombstone_block"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.first_block}-{self.last_block}"


class AuditVerdict(models.Model):
    """The result of the last verification of the audit: one row (`watching.py`). An empty problem is none."""

    verified_at = models.DateTimeField(_("verified"))
    size = models.BigIntegerField(_("blocks"))
    problem = models.TextField(_("problem"), blank=True)
    undelivered = models.TextField(_("undelivered checkpoints"), blank=True, default="")

    class Meta:
        default_permissions = ()
        constraints = [models.CheckConstraint(condition=Q(id=1), name="audit_verdict_is_one")]

    def __str__(self) -> str:
        return self.problem or str(self.verified_at)


class AuditVerification(models.Model):
    """One verification of the audit: its extent and result. An empty problem is none."""

    class Way(models.TextChoices):
        WATCH = "watch", _("In the background")
        WHOLE = "whole", _("The whole log, by command")
        PAGE = "page", _("The newest blocks, by a person")

    verified_at = models.DateTimeField(_("verified"))
    way = models.CharField(_("source"), max_length=5, choices=Way)
    size = models.BigIntegerField(_("log blocks"))
    blocks = models.BigIntegerField(_("blocks with their rows"))
    milliseconds = models.BigIntegerField(_("milliseconds"))
    problem = models.TextField(_("problem"), blank=True)

    class Meta:
        verbose_name = _("verification")
        verbose_name_plural = _("verifications")
        ordering = ["-id"]
        default_permissions = ("view",)
        constraints = [
            models.CheckConstraint(condition=Q(way__in=["watch", "whole", "page"]), name="audit_verification_way_known")
        ]

    def __str__(self) -> str:
        return self.problem or str(self.verified_at)


class AuditPolicy(RecordedModel):
    """How long the audit is kept: one row, edited by an operator."""

    RECORDED_AS = "retention_policy"

    rows_days = models.PositiveIntegerField(
        _("days to keep rows"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_(
            "After that, whole sealed blocks are removed and a signed tombstone remains. Leave blank to keep "
            "rows for ever."
        ),
    )
    bodies_days = models.PositiveIntegerField(
        _("days to keep bodies"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text=_(
            "After that, arguments, results and errors are erased; their digests remain and still verify. "
            "Leave blank for the same time as rows."
        ),
    )

    class Meta:
        verbose_name = _("retention policy")
        verbose_name_plural = _("retention policy")
        constraints = [models.CheckConstraint(condition=Q(id=1), name="audit_policy_is_one")]

    def __str__(self) -> str:
        return str(_("retention policy"))

    def clean(self) -> None:
        if self.rows_days and self.bodies_days and self.bodies_days >= self.rows_days:
            raise ValidationError(
                {
                    "bodies_days": _(
                        "Bodies can't be kept longer than their rows. Leave this blank to keep both equally long."
                    )
                }
            )

    def save(self, *args: object, **kwargs: object) -> None:
        self.pk = 1
        super().save(*args, **kwargs)

    @classmethod
    def current(cls) -> AuditPolicy:
        return cls.objects.filter(pk=1).first() or cls(pk=1)


class AuditHold(RecordedModel):
    """A legal hold: blocks with a row that it describes lose neither rows nor bodies until it is released."""

    RECORDED_AS = "legal_hold"

    name = models.CharField(_("name"), max_length=100, unique=True)
    reason = models.CharField(_("reason"), max_length=500)
    tool_name = models.CharField(_("tool"), max_length=128, blank=True)
    principal = models.CharField(
        _("principal"), max_length=64, blank=True, help_text=_("key:<id>, user:<id> or anonymous.")
    )
    session_id = models.CharField(_("session"), max_length=64, blank=True)
    received_from = models.DateTimeField(_("from"), null=True, blank=True)
    received_until = models.DateTimeField(_("until"), null=True, blank=True)
    first_block = models.BigIntegerField(_("first block"), null=True, blank=True)
    last_block = models.BigIntegerField(_("last block"), null=True, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now, editable=False)
    released_at = models.DateTimeField(_("released"), null=True, blank=True, editable=False)

    class Meta:
        verbose_name = _("legal hold")
        verbose_name_plural = _("legal holds")
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        described = (
            self.tool_name,
            self.principal,
            self.session_id,
            self.received_from,
            self.received_until,
            self.first_block,
            self.last_block,
        )
        if all(value in (None, "") for value in described):
            raise ValidationError(
                _("Enter what the hold covers: a tool, a caller, a session, a time range or a range of blocks.")
            )

    def description(self) -> dict[str, Json]:
        """Return the held rows, by the names of the command's flags."""
        described = {
            "tool": self.tool_name,
            "principal": self.principal,
            "session": self.session_id,
            "from": self.received_from and self.received_from.isoformat(),
            "until": self.received_until and self.received_until.isoformat(),
            "first-block": self.first_block,
            "last-block": self.last_block,
        }
        return {name: value for name, value in described.items() if value not in (None, "")}

    def release(self, reason: str = "") -> None:
        self.released_at = timezone.now()
        self.change_reason = reason
        self.save(update_fields=["released_at"])


def horizon(days: int, now: datetime | None = None) -> datetime:
    """Return the moment before which sealed rows are older than `days`."""
    return (now or timezone.now()) - timedelta(days=days)
