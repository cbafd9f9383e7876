"""The processes of the hub, and the transports that each of them serves."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app import transports
from sessions_app.kit.fields import JSONText


class ServerProcess(models.Model):
    """One running process of the hub. Distinguishes a crashed process's open calls from running ones.

    It goes stopped, starting, running, stopping, stopped, and from any of them to error; a trigger keeps it to that.
    """

    class Status(models.TextChoices):
        STARTING = "starting", _("Starting")
        RUNNING = "running", _("Running")
        STOPPING = "stopping", _("Stopping")
        STOPPED = "stopped", _("Stopped")
        ERROR = "error", _("Error")

    process_id = models.CharField(_("process"), max_length=32, primary_key=True)
    version = models.CharField(_("version"), max_length=32)
    protocol_version = models.CharField(
        _("protocol version"), max_length=10, blank=True, help_text=_("The newest MCP revision that it supports.")
    )
    status = models.CharField(_("status"), max_length=10, choices=Status, default=Status.STARTING)
    host = models.CharField(_("host"), max_length=255)
    pid = models.PositiveIntegerField(_("process number"))
    boot_mark = models.CharField(
        max_length=64, blank=True, help_text=_("Start time of the process as reported by the system.")
    )
    address = models.CharField(_("address for other processes"), max_length=255, blank=True)
    """Where it takes calls that they pass on; empty where it takes none."""
    peer_address = models.CharField(_("address for other machines"), max_length=300, blank=True)
    """Where processes of other machines pass calls on to it; empty where they cannot."""
    memory_bytes = models.PositiveBigIntegerField(_("memory in use, bytes"), null=True, blank=True)
    """As of its last sign of life. Linux; null elsewhere, and for workers of 1.0.0."""
    started_at = models.DateTimeField(_("started"), default=timezone.now)
    last_seen_at = models.DateTimeField(_("last seen"), default=timezone.now)
    stopped_at = models.DateTimeField(_("stopped"), null=True, blank=True)

    class Meta:
        verbose_name = _("server process")
        verbose_name_plural = _("server processes")
        ordering = ["-started_at"]
        permissions = [("view_settings", _("Can view the settings and diagnostics of the hub"))]
        constraints = [
            models.CheckConstraint(
                condition=Q(status__in=["starting", "running", "stopping", "stopped", "error"]),
                name="process_status_known",
            ),
            models.CheckConstraint(condition=Q(version__regex=r"^\d+\.\d+\.\d+"), name="process_version_semver"),
        ]
        indexes = [models.Index(fields=["status", "last_seen_at"], name="process_liveness")]  # the sweep

    def __str__(self) -> str:
        return f"{self.host}:{self.pid}"


class ProcessTransport(models.Model):
    """A transport that one process serves. Written by that process, read by all."""

    process = models.ForeignKey(
        ServerProcess, models.CASCADE, related_name="transports", verbose_name=_("process"), db_index=False
    )
    type = models.CharField(_("transport"), max_length=16, choices=transports.choices)
    is_active = models.BooleanField(_("active"), default=True, help_text=_("It accepts connections from clients."))
    configuration = JSONText(_("configuration"), default=dict, blank=True)
    last_error = models.CharField(_("last error"), max_length=500, blank=True)
    last_error_at = models.DateTimeField(_("time of the last error"), null=True, blank=True)

    class Meta:
        default_permissions = ()
        verbose_name = _("transport of a process")
        verbose_name_plural = _("transports of processes")
        ordering = ["process", "type"]
        constraints = [
            models.UniqueConstraint(fields=["process", "type"], name="process_transport_once"),
            models.CheckConstraint(condition=~Q(type=""), name="process_transport_type_present"),
            models.CheckConstraint(
                condition=Q(last_error="", last_error_at=None) | (~Q(last_error="") & Q(last_error_at__isnull=False)),
                name="process_transport_error_has_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.process_id[:8]} {self.type}"
