"""The tables of shipping: targets, which operators edit, and where each of them stands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import F, OuterRef, Q, Subquery
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from invocations.chain.models import AuditBlock
from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.entered import parts_of
from sessions_app.protocol.errors import EgressRefused
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.secrets import KeepsOneSecret

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_TARGETS = 20
"""Each switched-on target has a thread and a connection of the database in the shipping process."""
_HEADER = re.compile(r"[A-Za-z0-9-]{1,60}\Z")
_CLOSED_HEADERS = frozenset({"host", "content-length", "content-type", "content-encoding", "transfer-encoding"})


class ShippingTargetQuerySet(models.QuerySet["ShippingTarget"]):
    def with_lag(self) -> ShippingTargetQuerySet:
        """Read with each target where the log ends, and when the oldest block was sealed that it has not got."""
        from_its_block = AuditBlock.objects.filter(number__gte=Coalesce(OuterRef("state__block"), 0))
        blocks = from_its_block.annotate(end=F("first_position") + F("row_count"))
        due = blocks.filter(end__gt=OuterRef("state__position"))
        return self.select_related("state").annotate(
            log_end=Coalesce(Subquery(blocks.order_by("-number").values("end")[:1]), 0),
            due_since=Subquery(due.order_by("number").values("sealed_at")[:1]),
        )


class ShippingTarget(KeepsOneSecret, GuardedModel):
    """A place outside that gets the audit as it is sealed."""

    HIDDEN = ("ciphertext",)
    GUARDED: ClassVar[Mapping[str, Any]] = {"enabled": False, "with_bodies": False, "content": "checkpoints"}
    GUARDED_AS_STORED = ("authority",)
    """Whose certificate is believed to be the receiver's."""
    JUDGED_BY: ClassVar[tuple[str, ...]] = ("kind", "address")

    class Kind(models.TextChoices):
        FOLDER = "folder", _("Files in a folder")
        WEBHOOK = "webhook", _("Webhook: JSON lines")
        SYSLOG = "syslog", _("Syslog (RFC 5424)")
        OTLP = "otlp", _("OpenTelemetry logs (OTLP over HTTP)")
        S3 = "s3", _("Object store (S3)")

    class Content(models.TextChoices):
        ALL = "all", _("All rows, and the checkpoint of each block")
        CHECKPOINTS = "checkpoints", _("Checkpoints only")

    class Format(models.TextChoices):
        JSONL = "jsonl", _("JSON lines")
        PARQUET = "parquet", _("Parquet")
        OCSF = "ocsf", _("OCSF events")
        CEF = "cef", _("CEF lines")
        LEEF = "leef", _("LEEF lines")

    class Begins(models.TextChoices):
        FIRST = "first", _("With the first recorded row")
        NOW = "now", _("With the next row")

    name = models.CharField(
        _("name"),
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z", _("Use lowercase letters, digits and hyphens."))],
        help_text=_("Identifies it in metrics, in the log and on the command line. It can't be changed."),
    )
    kind = models.CharField(_("kind"), max_length=10, choices=Kind)
    enabled = models.BooleanField(_("enabled"), default=True)
    address = models.CharField(
        _("address"),
        max_length=500,
        help_text=_(
            "Webhook and OTLP: https://… (OTLP up to /v1/logs). Syslog: tls://host:6514 or tcp://host:601. "
            "S3: https://endpoint/bucket/prefix. Folder: a name; it is created below MCPHUB_SHIPPING_DIR. "
            "The address is visible and kept in the history."
        ),
    )
    content = models.CharField(_("content"), max_length=12, choices=Content, default=Content.ALL)
    with_bodies = models.BooleanField(
        _("with bodies"),
        default=False,
        help_text=_("Arguments, results and errors as stored, after redaction. If off, only their digests."),
    )
    format = models.CharField(
        _("format"),
        max_length=8,
        choices=Format,
        default=Format.JSONL,
        help_text=_(
            "Parquet is for files and objects; OCSF for files, objects and webhooks; CEF and LEEF for syslog, which "
            "otherwise gets JSON."
        ),
    )
    begins = models.CharField(_("start"), max_length=5, choices=Begins, default=Begins.FIRST)
    holds_retention = models.BooleanField(
        _("retention waits"),
        default=True,
        help_text=_(
            "Retention keeps rows until this destination has received them. If off, the destination is "
            "informed of blocks removed before delivery."
        ),
    )
    every_seconds = models.PositiveIntegerField(
        _("seconds between deliveries"),
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(3600)],
        help_text=_("The maximum while rows arrive. Leave blank for 1 (60 for objects and Parquet)."),
    )
    header = models.CharField(
        _("header"),
        max_length=60,
        blank=True,
        help_text=_("OTLP: the header that carries the secret. Leave blank for Authorization."),
    )
    access_id = models.CharField(_("access key id"), max_length=200, blank=True, help_text=_("For S3."))
    region = models.CharField(_("region"), max_length=60, blank=True, help_text=_("For S3. Leave blank for us-east-1."))
    authority = models.TextField(
        _("certificate authority"),
        blank=True,
        help_text=_("Syslog over TLS: certificates (PEM) to trust instead of the public ones."),
    )
    file_mib = models.PositiveIntegerField(
        _("MiB per file"),
        default=64,
        validators=[MinValueValidator(1), MaxValueValidator(4096)],
        help_text=_("Folder: a new file begins at this size, and every day (UTC)."),
    )
    ciphertext = models.TextField(editable=False, blank=True)
    mask = models.CharField(_("secret"), max_length=40, editable=False, blank=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = ShippingTargetQuerySet.as_manager()

    class Meta:
        app_label = "invocations"
        verbose_name = _("export destination")
        verbose_name_plural = _("export destinations")
        ordering = ["name"]
        permissions = [("test_shippingtarget", _("Can test an export destination"))]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind__in=["folder", "webhook", "syslog", "otlp", "s3"]), name="shipping_kind_known"
            ),
            models.CheckConstraint(condition=~Q(address=""), name="shipping_has_address"),
        ]

    def __str__(self) -> str:
        return self.name

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """One that gets checkpoints alone gets rows by two; what a new one gets is judged with `enabled`."""
        if stored is not None and stored["content"] == self.Content.CHECKPOINTS:
            return self.GUARDED
        return {name: value for name, value in self.GUARDED.items() if name != "content"}

    def clean(self) -> None:
        self.address = self.address.strip()
        if self._state.adding and ShippingTarget.objects.count() >= MOST_TARGETS:
            raise ValidationError(_("There are %(most)d destinations, the maximum.") % {"most": MOST_TARGETS})
        getattr(self, f"_clean_{self.kind}", lambda: None)()
        if self.format == self.Format.PARQUET and self.kind not in (self.Kind.FOLDER, self.Kind.S3):
            raise ValidationError({"format": _("Parquet is available for files and objects.")})
        if self.format == self.Format.OCSF and self.kind in (self.Kind.SYSLOG, self.Kind.OTLP):
            raise ValidationError({"format": _("OCSF is available for files, objects and webhooks.")})
        if self.format in (self.Format.CEF, self.Format.LEEF) and self.kind != self.Kind.SYSLOG:
            raise ValidationError({"format": _("CEF and LEEF are available for syslog.")})
        if self.header and (not _HEADER.match(self.header) or self.header.lower() in _CLOSED_HEADERS):
            raise ValidationError({"header": _("This header can't carry a secret.")})

    def check_secret(self) -> None:
        """Raise ValidationError where a secret is needed and none is set."""
        if self.kind == self.Kind.S3 and not self.ciphertext:
            raise ValidationError({"new_secret": _("S3 needs the secret access key.")})

    def _clean_folder(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}", self.address):
            raise ValidationError({"address": _("Enter a folder name: letters, digits, - and _, without a path.")})

    def _clean_webhook(self) -> None:
        self._clean_url()

    def _clean_otlp(self) -> None:
        self._clean_url()

    def _clean_s3(self) -> None:
        self._clean_url()
        url = parts_of(self.address)
        if not url.path.strip("/") or url.query or url.fragment:
            raise ValidationError({"address": _("Enter https://endpoint/bucket or https://endpoint/bucket/prefix.")})
        if not self.access_id:
            raise ValidationError({"access_id": _("S3 needs an access key id.")})

    def _clean_url(self) -> None:
        url = parts_of(self.address)
        if url.scheme != "https" and not (url.scheme == "http" and url.hostname in ("localhost", "127.0.0.1", "::1")):
            raise ValidationError({"address": _("Enter an https address. http is accepted for loopback only.")})
        try:
            EgressPolicy.from_settings().check_url(self.address)
        except EgressRefused as error:
            raise ValidationError({"address": str(error)}) from error

    def _clean_syslog(self) -> None:
        url = parts_of(self.address)
        is_one = url.scheme in ("tls", "tcp") and bool(url.hostname and url.port) and not url.path.strip("/")
        if not is_one or url.query or url.fragment or url.username:
            raise ValidationError({"address": _("Enter tls://host:6514 or tcp://host:601.")})
        try:
            EgressPolicy.from_settings().check_url(f"https://{url.netloc}/")
        except EgressRefused as error:
            raise ValidationError({"address": str(error)}) from error
        if self.authority:
            import ssl

            try:
                ssl.create_default_context(cadata=self.authority)
            except (ssl.SSLError, ValueError) as error:
                raise ValidationError({"authority": _("This is not a PEM certificate.")}) from error

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save; a new destination begins at its configured start."""
        with transaction.atomic():
            is_new = self._state.adding
            super().save(*args, **kwargs)
            if is_new:
                ShippingState.begin(self)

    @property
    def _binding(self) -> str:
        return f"invocations.ShippingTarget:{self.name}:secret"

    @property
    def gathers(self) -> bool:
        """Whether each delivery is a file or object of its own, so that few large ones are better."""
        return self.kind == self.Kind.S3 or self.format == self.Format.PARQUET

    @property
    def pause_seconds(self) -> int:
        return self.every_seconds or (60 if self.gathers else 1)


class ShippingState(models.Model):
    """Where a target stands: everything before `position` has arrived. Written by the shipping process."""

    target = models.OneToOneField(
        ShippingTarget, models.CASCADE, primary_key=True, related_name="state", verbose_name=_("destination")
    )
    position = models.BigIntegerField(_("position"), default=0)
    """The next row of the log to go, counted over all tables from 0, as blocks and proofs count."""
    block = models.BigIntegerField(_("block"), null=True)
    """The last block of which something went, and the log's root with it: the log must still have it."""
    tree_root = models.CharField(max_length=64, blank=True)
    begun = models.BooleanField(default=False)
    """Whether the first record, with the state of the log before the first row, has arrived."""
    rows = models.BigIntegerField(_("rows delivered"), default=0)
    refused_rows = models.BigIntegerField(_("rows refused"), default=0)
    """Rows that an OTLP receiver took and then rejected; its protocol forbids to send them again."""
    delivered_at = models.DateTimeField(_("last delivery"), null=True)
    failures = models.PositiveIntegerField(_("consecutive failures"), default=0)
    failing_since = models.DateTimeField(_("failing since"), null=True)
    problem = models.CharField(_("problem"), max_length=500, blank=True)

    class Meta:
        app_label = "invocations"
        default_permissions = ()
        verbose_name = _("export destination status")
        verbose_name_plural = _("export destination statuses")

    def __str__(self) -> str:
        return f"{self.target}: {self.position}"

    @classmethod
    def begin(cls, target: ShippingTarget) -> None:
        """Make the row of a new target."""
        last = AuditBlock.objects.order_by("-number").defer("nodes").first()
        if target.begins == ShippingTarget.Begins.FIRST or last is None:
            cls.objects.create(target=target)
            return
        end = last.first_position + last.row_count
        cls.objects.create(target=target, position=end, block=last.number, tree_root=last.tree_root)

    def rewind(self, number: int) -> None:
        """Restart at a block: rows sent since are sent again."""
        before = AuditBlock.objects.filter(number=number - 1).first() if number else None
        if number and before is None:
            raise ValidationError({"block": _("The log has no block %(number)d.") % {"number": number - 1}})
        ShippingState.objects.filter(pk=self.pk).update(
            position=before.first_position + before.row_count if before else 0,
            block=before.number if before else None,
            tree_root=before.tree_root if before else "",
            begun=False,
            failures=0,
            failing_since=None,
            problem="",
        )

    @property
    def failing_seconds(self) -> float:
        return (timezone.now() - self.failing_since).total_seconds() if self.failing_since else 0.0
