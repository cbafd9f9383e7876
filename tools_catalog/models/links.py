"""How each process of the hub stands with the connections to other MCP servers."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.states import LinkState


class McpConnectionLink(models.Model):
    """How one process of the hub stands with one connection. Its steps are those of `upstream.states`."""

    connection = models.ForeignKey(McpConnection, models.CASCADE, related_name="links", verbose_name=_("connection"))
    process_id = models.CharField(_("process"), max_length=64)
    status = models.CharField(_("status"), max_length=20, choices=McpConnection.Status)
    error_message = models.CharField(_("last error"), max_length=1000, blank=True)
    stderr = models.TextField(_("last stderr output"), blank=True)
    protocol_version = models.CharField(_("protocol version"), max_length=20, blank=True)
    server = models.CharField(_("server"), max_length=200, blank=True)
    latency_ms = models.FloatField(_("last response, ms"), null=True, blank=True)
    restarts = models.PositiveIntegerField(_("reconnects"), default=0)
    calls = models.PositiveBigIntegerField(_("calls"), default=0)
    failures = models.PositiveBigIntegerField(_("failed calls"), default=0)
    failed_in_a_row = models.PositiveIntegerField(_("consecutive failures"), default=0)
    paused_until = models.DateTimeField(_("circuit open until"), null=True, blank=True)
    """Of this process: after failed calls in a row it makes none, and then one as a trial."""
    holds_lease = models.BooleanField(default=False)
    """This process runs the one child of a profile that allows one in the whole hub."""
    connected_at = models.DateTimeField(_("connected"), null=True, blank=True)
    reconnected_at = models.DateTimeField(_("last reconnected"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("connection status")
        verbose_name_plural = _("connection statuses")
        ordering = ["connection", "process_id"]
        constraints = [
            models.UniqueConstraint(fields=["connection", "process_id"], name="link_one_per_process"),
            models.UniqueConstraint(
                fields=["connection"], condition=Q(holds_lease=True), name="link_one_lease_per_connection"
            ),
            models.CheckConstraint(
                condition=Q(status__in=[state.value for state in LinkState]), name="link_status_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.connection_id} {self.process_id[:8]} {self.status}"
