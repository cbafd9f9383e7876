"""Examples of use that an operator wrote for a tool, or took from its recorded calls."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _

from mcphub.features.call_examples.lines import LONGEST, MOST, findings, lines_of
from sessions_app.history.recording import RecordedModel


class ToolExamples(RecordedModel):
    """The examples of one tool. A tool without a row has none: nothing is taken before an operator adds one."""

    RECORDED_AS = "tool_examples"

    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition", models.CASCADE, related_name="call_examples", verbose_name=_("tool")
    )
    examples = models.TextField(
        _("examples"),
        blank=True,
        max_length=MOST * (LONGEST + 2),
        help_text=_(
            "One per line: a request that the tool answers, as people would say it. Searches read them; clients do not "
            "get them. At most 10 lines of 200 characters."
        ),
    )

    workspace = models.ForeignKey(
        "sessions_app.McpWorkspace", models.CASCADE, null=True, blank=True, editable=False, related_name="+"
    )
    """The tool's when they were saved. A tool that moves to another has none there until an operator saves them."""

    class Meta:
        verbose_name = _("examples of use")
        verbose_name_plural = _("examples of use")
        ordering = ["tool__name"]

    def __str__(self) -> str:
        return str(self.tool)

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.workspace = self.tool.workspace
        super().save(*args, **kwargs)

    def clean(self) -> None:
        lines = lines_of(self.examples)
        problems = []
        if len(lines) > MOST:
            problems.append(_("Enter at most %(most)d lines.") % {"most": MOST})
        for number, line in enumerate(lines, 1):
            if len(line) > LONGEST:
                problems.append(
                    _("Line %(number)d has more than %(longest)d characters.") % {"number": number, "longest": LONGEST}
                )
            elif kinds := findings(line):
                problems.append(
                    _("Line %(number)d may hold protected data: %(kinds)s.")
                    % {"number": number, "kinds": ", ".join(kinds)}
                )
        if problems:
            raise ValidationError({"examples": problems})
        self.examples = "\n".join(lines)
