"""Definitions that upstreams offer, as rows: as last listed, and as approved."""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.recording import RecordedModel
from sessions_app.kit.fields import JSONText
from tools_catalog.detectors import definitions
from tools_catalog.models.offer_kinds import handler_of
from tools_catalog.models.upstream import McpConnection
from tools_catalog.upstream.listing import Listed


class McpUpstreamTool(RecordedModel):
    """An upstream's offer, a tool or other content: as last seen, and as approved."""

    class Kind(models.TextChoices):
        TOOL = "tool", _("Tool")
        RESOURCE = "resource", _("Resource")
        TEMPLATE = "template", _("Resource template")
        PROMPT = "prompt", _("Prompt")
        SKILL = "skill", _("Skill")

    class State(models.TextChoices):
        NEW = "new", _("New")
        CHANGED = "changed", _("Changed")
        APPROVED = "approved", _("Approved")
        REJECTED = "rejected", _("Rejected")
        REFUSED = "refused", _("Refused")
        GONE = "gone", _("No longer offered")

    connection = models.ForeignKey(McpConnection, models.CASCADE, related_name="tools", verbose_name=_("connection"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.TOOL, editable=False)
    upstream_name = models.CharField(_("name there"), max_length=1000, help_text=_("For a resource, its URI."))
    name = models.CharField(
        _("name here"), max_length=1000, help_text=_("The name that clients use once it is approved.")
    )
    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="upstream_tool",
        verbose_name=_("tool"),
        editable=False,
    )
    resource = models.OneToOneField(
        "tools_catalog.McpResource",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="upstream_offer",
        verbose_name=_("resource"),
        editable=False,
    )
    prompt = models.OneToOneField(
        "tools_catalog.McpPrompt",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="upstream_offer",
        verbose_name=_("prompt"),
        editable=False,
    )
    seen = JSONText(_("current offer"), editable=False)
    seen_digest = models.CharField(max_length=64, editable=False)
    seen_schema_digest = models.CharField(max_length=64, editable=False)
    seen_at = models.DateTimeField(_("offered since"), default=timezone.now, editable=False)
    approved = JSONText(_("approved definition"), default=dict, blank=True, editable=False)
    approved_digest = models.CharField(max_length=64, blank=True, editable=False)
    approved_schema_digest = models.CharField(max_length=64, blank=True, editable=False)
    rejected_digest = models.CharField(max_length=64, blank=True, editable=False)
    renamed_from = models.CharField(_("formerly"), max_length=1000, blank=True, editable=False)
    refusal = models.CharField(_("why it can't be made available"), max_length=1000, blank=True, editable=False)
    is_gone = models.BooleanField(default=False, editable=False)
    decided_by = models.CharField(_("decided by"), max_length=150, blank=True, editable=False)
    decided_at = models.DateTimeField(_("decided"), null=True, blank=True, editable=False)
    state = models.GeneratedField(
        expression=Case(
            When(is_gone=True, then=Value("gone")),
            When(approved_digest=F("seen_digest"), then=Value("approved")),
            When(~Q(refusal=""), then=Value("refused")),
            When(rejected_digest=F("seen_digest"), then=Value("rejected")),
            When(approved_digest="", then=Value("new")),
            default=Value("changed"),
        ),
        output_field=models.CharField(_("state"), max_length=10, choices=State),
        db_persist=True,
    )

    class Meta:
        verbose_name = _("upstream offer")
        verbose_name_plural = _("upstream offers")
        ordering = ["connection", "kind", "upstream_name"]
        default_permissions = ("view", "change")
        permissions = [("approve_mcpupstreamtool", _("Can approve upstream tools"))]
        constraints = [
            models.UniqueConstraint(fields=["connection", "kind", "upstream_name"], name="upstream_offer_once"),
            models.CheckConstraint(
                condition=Q(kind__in=["tool", "resource", "template", "prompt", "skill"]),
                name="upstream_offer_kind_known",
            ),
        ]
        indexes = [
            models.Index(fields=["state"], name="upstream_tool_by_state"),  # the inbox of the admin
            models.Index(fields=["name"], name="upstream_tool_by_name"),  # which other offer has the name
        ]

    def __str__(self) -> str:
        return self.upstream_name[:100]

    @property
    def served(self) -> Any:
        """The row of the catalogue that it became, or None."""
        further = handler_of(self.kind)
        return further.served(self) if further is not None else self.tool or self.resource or self.prompt

    @property
    def warnings(self) -> dict[str, int]:
        """The detectors' findings in the definition as last seen: kind and count. Not of one that is approved so."""
        if self.state == self.State.APPROVED:
            return {}
        further = handler_of(self.kind)
        return definitions.warnings(self.seen) if further is None else further.warnings(self)

    def is_withheld(self, connection: McpConnection) -> bool:
        """Return whether it must not be called, though it was approved once."""
        if self.is_gone:
            return True
        if connection.policy == McpConnection.Policy.TRUST or self.seen_digest == self.approved_digest:
            return False
        return not (connection.keeps_serving and self.seen_schema_digest == self.approved_schema_digest)

    def see(self, listed: Listed) -> None:
        """Store the upstream's current definition."""
        self.seen, self.seen_digest, self.seen_schema_digest = listed.definition, listed.digest, listed.schema_digest
        self.seen_at = timezone.now()
        self.is_gone = False
