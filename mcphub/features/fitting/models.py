"""How much of results clients get, and the whole results that they may still read."""

from __future__ import annotations

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcphub.features.fitting.fields import FieldsError, compiled
from sessions_app.history.recording import RecordedModel

LEAST_CHARACTERS = 500
LONGEST_FIELDS = 2000


def _only_one(*names: str) -> models.Q:
    """Return the condition that exactly one of these columns has a value."""
    found = models.Q()
    for chosen in names:
        found |= models.Q(**{f"{name}__isnull": name != chosen for name in names})
    return found


class ResultSize(RecordedModel):
    """The bounds of the results of one tool, of a toolset's tools, or of one key's calls. Others are sent whole."""

    RECORDED_AS = "result_size"

    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="result_size",
        verbose_name=_("tool"),
    )
    toolset = models.OneToOneField(
        "tools_catalog.McpToolset",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="result_size",
        verbose_name=_("toolset"),
        help_text=_("The largest result applies to each tool of the toolset, at every address."),
    )
    key = models.OneToOneField(
        "sessions_app.ApiKey",
        models.CASCADE,
        null=True,
        blank=True,
        related_name="result_size",
        verbose_name=_("API key"),
        help_text=_(
            "The largest result applies to each call with this key. If there are several limits, the smallest applies."
        ),
    )
    fields = models.TextField(
        _("fields"),
        blank=True,
        max_length=LONGEST_FIELDS,
        help_text=_(
            "A JMESPath expression over the result, such as values[].{id: id, title: title}. Leave blank to send all "
            "fields. This saves space but protects nothing: clients can read the full result."
        ),
    )
    fields_argument = models.CharField(
        _("argument for fields"),
        blank=True,
        max_length=64,
        help_text=_(
            "Name of an argument in which callers may send a JMESPath expression of their own, such as result_fields. "
            "Leave blank to offer none."
        ),
    )
    most_characters = models.PositiveIntegerField(
        _("largest result"),
        null=True,
        blank=True,
        validators=[MinValueValidator(LEAST_CHARACTERS)],
        help_text=_(
            "In characters, about four per token. For a larger result the client gets a preview and a link to all of "
            "it. Leave blank for no limit."
        ),
    )

    tables_as_csv = models.BooleanField(
        _("tables as CSV"),
        default=False,
        help_text=_("Send lists of objects as CSV where that is shorter. Nothing is lost; programs still get JSON."),
    )

    class Meta:
        verbose_name = _("result size")
        verbose_name_plural = _("result sizes")
        ordering = ["tool__name", "toolset__slug", "key__name"]
        constraints = [
            models.CheckConstraint(
                condition=_only_one("tool", "toolset", "key"),
                name="result_size_of_one",
                violation_error_message=_("Choose one tool, one toolset or one API key."),
            ),
            models.CheckConstraint(
                condition=models.Q(most_characters__isnull=True) | models.Q(most_characters__gte=LEAST_CHARACTERS),
                name="result_size_has_room",
            ),
        ]

    def __str__(self) -> str:
        return str(self.tool or self.toolset or self.key)

    def clean(self) -> None:
        try:
            compiled(self.fields)
        except FieldsError as error:
            raise ValidationError({"fields": str(error)}) from error
        if self.fields_argument:
            self._check_argument()
        if self.tool_id is None:
            self._check_bound()
        elif not (self.fields or self.fields_argument or self.most_characters or self.tables_as_csv):
            raise ValidationError(
                _("Enter fields, an argument or a largest result, or choose CSV. Delete the entry to send all.")
            )

    def _check_bound(self) -> None:
        """Raise ValidationError where a toolset or key has other settings than a bound."""
        only_of_tools = _("Leave blank: only a tool can have this.")
        problems = {
            name: only_of_tools for name in ("fields", "fields_argument", "tables_as_csv") if getattr(self, name)
        }
        if not self.most_characters:
            problems["most_characters"] = _("Enter the largest result. To remove the limit, delete the entry.")
        if problems:
            raise ValidationError(problems)

    def _check_argument(self) -> None:
        name = self.fields_argument
        if not name.isidentifier() or not name.isascii():
            raise ValidationError({"fields_argument": _("Use letters, digits and _, such as result_fields.")})
        schema = self.tool.input_schema if self.tool is not None else {}
        if name in (schema or {}).get("properties", {}):
            message = _("The tool has an argument %(name)s of its own. Choose another name.") % {"name": name}
            raise ValidationError({"fields_argument": message})


class KeptResult(models.Model):
    """One whole result that its caller may read for a while. Encrypted, since records may hide parts of it."""

    id = models.CharField(primary_key=True, max_length=40)
    principal = models.CharField(max_length=80)
    tool_name = models.CharField(max_length=256)
    invocation_id = models.CharField(max_length=64)
    content = models.TextField()
    stored_bytes = models.PositiveBigIntegerField()
    characters = models.PositiveBigIntegerField()
    is_hidden_on_record = models.BooleanField()
    """The record of its call hides values, so no record of a read may show them."""
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()

    class Meta:
        default_permissions = ()
        indexes = [
            models.Index(fields=["principal", "-created_at"], name="kept_result_of_caller"),
            models.Index(fields=["expires_at"], name="kept_result_expiry"),
        ]

    def __str__(self) -> str:
        return f"{self.tool_name} ({self.invocation_id})"
