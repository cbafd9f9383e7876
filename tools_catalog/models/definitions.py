"""The callable part of the catalogue: tool definitions and their immutable versions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import Q, Sum, Value
from django.db.models.functions import Length
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.fields import JSONText
from sessions_app.protocol import envelope, json, mcp_apps, schemas
from sessions_app.protocol.json import Json
from sessions_app.protocol.tasks import TaskSupport
from sessions_app.workspaces.scope import OwnedModel
from tools_catalog import requirements
from tools_catalog.kinds.registry import KINDS, by_approval, choices
from tools_catalog.models.aliases import McpAlias
from tools_catalog.models.content import NAME as TOOL_NAME
from tools_catalog.models.content import Switchable, keep_groups, misplaced
from tools_catalog.models.moving import Moving

_SAID = object()


class TaskChoice(models.TextChoices):
    """`execution.taskSupport` in an operator's words."""

    FORBIDDEN = TaskSupport.FORBIDDEN.value, _("Never")
    OPTIONAL = TaskSupport.OPTIONAL.value, _("When the client supports tasks")
    REQUIRED = TaskSupport.REQUIRED.value, _("Always")


_MEMBERS = 240
"""Characters of a Tool object beside its own words, about: names of members, annotations."""


class McpToolDefinitionQuerySet(Switchable["McpToolDefinition"]):
    def characters(self) -> int:
        """Return about how many characters the list of these tools has that are switched on, without reading them."""
        columns = ("name", "title", "description", "input_schema", "output_schema", "meta")
        length = sum((Length(column) for column in columns), start=Value(_MEMBERS))
        return self.filter(enabled=True).aggregate(characters=Sum(length))["characters"] or 0

    def called(self, name: str) -> McpToolDefinition | None:
        """Return the tool of a name, or else of a former name that still leads to it."""
        found = self.filter(name=name).first()
        return found or self.filter(aliases__in=McpAlias.objects.live().filter(name=name, tool__isnull=False)).first()


class McpToolDefinition(OwnedModel, GuardedModel):
    """A tool as `tools/list` declares it, with its backend and its visibility."""

    RECORDED_AS = "tool"
    IS_SHARED = True
    GUARDED: ClassVar[dict[str, Any]] = {"read_only": False, "destructive": True}
    GUARDED_AS_STORED = ("workspace_id",)
    """Its calls are read by the people of its workspace."""
    GUARDED_LINKS = ("groups",)
    JUDGED_BY = ("backend", "configuration")
    BOUND = (
        *("name", "meta", "read_only", "destructive", "idempotent", "open_world"),
        *("backend", "configuration", "enabled", "workspace_id"),
        *("input_schema", "output_schema"),
    )

    VERSIONED = (
        "name",
        "title",
        "description",
        "input_schema",
        "output_schema",
        "backend",
        "configuration",
        "read_only",
        "destructive",
        "idempotent",
        "open_world",
        "timeout_seconds",
        "meta",
        "task_support",
    )
    UNSAID: ClassVar[dict[str, Any]] = {"task_support": TaskSupport.FORBIDDEN.value}
    """Later additions, with their neutral values: omitted from a version, so that its digest stays."""

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[RegexValidator(TOOL_NAME, _("Use 1 to 64 of the characters A-Z a-z 0-9 _ . -"))],
        help_text=_("What clients call. 1 to 64 of A-Z a-z 0-9 _ . -"),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    description = models.TextField(
        _("description"), help_text=_("Read by models: describe the tool's purpose and when to use it.")
    )
    input_schema = JSONText(_("input schema"), help_text=_("JSON Schema of the arguments; its root type is object."))
    output_schema = JSONText(
        _("output schema"),
        default=dict,
        blank=True,
        help_text=_("JSON Schema of the structured result. Leave blank if the tool has none."),
    )
    version = models.CharField(_("version"), max_length=20, default="1", editable=False)
    enabled = models.BooleanField(_("enabled"), default=True)

    backend = models.CharField(_("backend"), max_length=10, choices=choices)
    configuration = JSONText(
        _("configuration"), help_text=_('Python: {"function": …}. HTTP: method, url, query, headers, body, response.')
    )
    read_only = models.BooleanField(
        _("read-only"), default=False, help_text=_("No side effects. Skips the write-ahead audit record.")
    )
    destructive = models.BooleanField(_("destructive"), default=True, help_text=_("Can delete or overwrite data."))
    idempotent = models.BooleanField(
        _("idempotent"), default=False, help_text=_("Calling it again has no further effect.")
    )
    open_world = models.BooleanField(_("open world"), default=True, help_text=_("Reaches systems outside the hub."))
    retry_safe = models.BooleanField(
        _("retry-safe"), default=False, help_text=_("Errors can advise the client to retry.")
    )
    timeout_seconds = models.FloatField(
        _("timeout in seconds"), default=30.0, validators=[MinValueValidator(0.1), MaxValueValidator(3600)]
    )
    task_support = models.CharField(
        _("runs as a task"),
        max_length=9,
        choices=TaskChoice,
        default=TaskChoice.FORBIDDEN,
        help_text=_(
            "Run as an MCP task: the client gets a handle and polls for the result. “Always” hides the tool "
            "from clients without task support; “When the client supports tasks” falls back to a normal call."
        ),
    )
    calls_per_minute = models.PositiveIntegerField(
        _("calls per minute"), null=True, blank=True, help_text=_("For all callers together. Leave blank for no limit.")
    )
    groups = models.ManyToManyField(
        Group,
        verbose_name=_("groups"),
        blank=True,
        help_text=_("Groups that can see and call it. Leave blank for every caller."),
    )
    meta = JSONText(_("metadata"), default=dict, blank=True, help_text=_("Sent to clients as _meta."))
    requirements = JSONText(
        _("server requirements"),
        default=dict,
        blank=True,
        help_text=_(
            'Requirements on its service: {"kind": "bitbucket-datacenter", "version": ">=8.0"}. Without a match '
            "the tool is not available."
        ),
    )
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = McpToolDefinitionQuerySet.as_manager()

    change_reason: str = ""
    """Entered by the editor; stored with the version that the edit makes."""
    change_author: Any = None
    """A user, or the label of a key."""

    _moving: Moving | None = None

    class Meta:
        verbose_name = _("tool")
        verbose_name_plural = _("tools")
        ordering = ["name"]
        permissions = [("try_mcptooldefinition", _("Can make real calls from the console"))]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=TOOL_NAME.pattern), name="tool_name_wellformed"),
            models.CheckConstraint(condition=~Q(description=""), name="tool_description_present"),
            models.CheckConstraint(condition=~Q(backend=""), name="tool_backend_present"),
            models.CheckConstraint(condition=Q(timeout_seconds__gt=0), name="tool_timeout_positive"),
            models.CheckConstraint(condition=Q(task_support__in=TaskChoice.values), name="tool_task_support_known"),
            models.CheckConstraint(
                condition=~Q(read_only=True, destructive=True),
                name="tool_read_only_is_not_destructive",
                violation_error_message=_("A read-only tool can't be destructive."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        for field, is_input in (("input_schema", True), ("output_schema", False)):
            schema = getattr(self, field)
            if field == "output_schema" and schema == {}:
                continue
            try:
                schemas.check(schema, input=is_input)
                if is_input:
                    envelope.param_headers(schema)
            except ValueError as error:
                problems[field] = str(error)
        try:
            self._check_configuration()
        except (ValueError, LookupError) as error:
            problems["configuration"] = str(error)
        if problem := misplaced(self, "upstream_tool"):
            problems["workspace"] = problem
        try:
            self._check_meta()
        except ValueError as error:
            problems["meta"] = str(error)
        try:
            requirements.check(self.requirements)
        except ValueError as error:
            problems["requirements"] = str(error)
        if refusal := McpAlias.objects.refusal_of(self, self.name):
            problems["name"] = refusal
        if problems:
            raise ValidationError(problems)

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, and create the next immutable version if a versioned column has changed."""
        self.timeout_seconds = float(self.timeout_seconds)  # 30 and 30.0 are one definition
        with transaction.atomic():
            if self._moving is not None:
                self._moving.store()
            self.refuse_move()  # before it is held back: without the right nobody proposes it
            self.hold_back(kwargs.get("update_fields"))
            snapshot = self._snapshot()
            digest = self.digest()
            newest = self.versions.first() if self.pk else None
            if newest is None or newest.digest != digest:
                self.version = str(int(newest.version) + 1 if newest else 1)
                if kwargs.get("update_fields") is not None:
                    kwargs["update_fields"] = {*kwargs["update_fields"], "version"}
                super().save(*args, **kwargs)
                author = self.change_author
                McpToolVersion.objects.create(
                    tool=self,
                    version=self.version,
                    digest=digest,
                    definition=snapshot,
                    author_id=author.pk if isinstance(author, models.Model) else None,
                    author_label=str(author or "")[:150],
                    reason=self.change_reason,
                )
                if newest is not None and (former := newest.definition["name"]) != self.name:
                    McpAlias.objects.leave(former, self)
            else:
                super().save(*args, **kwargs)

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        from tools_catalog.models import reach

        super().hold_back(only)
        reach.hold_back_tool(self, None if only is None else set(only))

    def _check_meta(self) -> None:
        if not isinstance(self.meta, dict):
            raise ValueError(_("This must be a JSON object."))
        if self.backend not in by_approval():  # what an upstream says of its views is shown as it is
            mcp_apps.check(self.meta)

    def _check_configuration(self) -> None:
        if not isinstance(self.configuration, dict):
            raise ValueError(_("This must be a JSON object."))
        if self.backend in KINDS:  # else the field says so
            kind = KINDS[self.backend]
            stored = McpToolDefinition.objects.filter(pk=self.pk, backend=self.backend) if self.pk else None
            before = stored.values_list("configuration", flat=True).first() if stored is not None else None
            self._moving = self._moving or Moving()
            self.configuration = kind.without_credentials(self, before, self._moving.taken)
            kind.check(self)

    def digest(self) -> str:
        """Return the digest of this definition in versions and calls."""
        return json.digest(json.canonical(self._snapshot()))

    def _snapshot(self) -> dict[str, Json]:
        values = {field: getattr(self, field) for field in self.VERSIONED}
        return {field: value for field, value in values.items() if self.UNSAID.get(field, _SAID) != value}

    @property
    def annotations(self) -> dict[str, Json]:
        """ToolAnnotations as MCP 2025-03-26 and later show them."""
        return {
            "readOnlyHint": self.read_only,
            "destructiveHint": self.destructive and not self.read_only,
            "idempotentHint": self.idempotent or self.read_only,
            "openWorldHint": self.open_world,
        }

    def restore(self, version: McpToolVersion) -> None:
        """Make `version`'s words current again, as a new version."""
        for field, value in {**self.UNSAID, **version.definition}.items():
            setattr(self, field, value)
        self.full_clean()
        self.save()


keep_groups(McpToolDefinition)


class McpToolVersion(models.Model):
    """The visible and executed definition under one version number. Never changed."""

    tool = models.ForeignKey(McpToolDefinition, models.PROTECT, related_name="versions", verbose_name=_("tool"))
    version = models.CharField(_("version"), max_length=20)
    digest = models.CharField(_("digest"), max_length=64)
    definition = JSONText(_("definition"))
    author = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.DO_NOTHING,
        null=True,
        blank=True,
        db_constraint=False,
        verbose_name=_("author"),
    )
    author_label = models.CharField(_("author"), max_length=150, blank=True)
    reason = models.CharField(_("reason"), max_length=500, blank=True)
    created_at = models.DateTimeField(_("created"), default=timezone.now)

    class Meta:
        verbose_name = _("tool version")
        verbose_name_plural = _("tool versions")
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["tool", "version"], name="tool_version_unique")]

    def __str__(self) -> str:
        return f"{self.tool_id} v{self.version}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise ValidationError(_("A version can't be changed; edit the tool to create a new one."))
        super().save(*args, **kwargs)

    def delete(self, *args: object, **kwargs: object) -> tuple[int, dict[str, int]]:
        raise ValidationError(_("A version can't be deleted."))
