"""Content for clients beside tools: resources and prompts, each a row with content or a function."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.fields import JSONText
from sessions_app.protocol import json, mcp_apps, uritemplate
from sessions_app.protocol.json import Json
from sessions_app.workspaces.scope import OwnedModel, OwnedQuerySet
from tools_catalog.backends import offered
from tools_catalog.models import described
from tools_catalog.models.aliases import McpAlias
from tools_catalog.models.loadable import LoadableModel

NAME = re.compile(r"^[A-Za-z0-9_.-]{1,64}\Z")
"""Of tools and prompts. MCP allows 128 characters; hosts cap at 64."""
URI = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+\Z")
"""Absolute, printable ASCII (RFC 3986); a template's braces too."""
_MIME_TYPE = re.compile(r"^[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+(;.{1,150})?\Z")

_Row = TypeVar("_Row", bound=models.Model)


class Switchable(OwnedQuerySet[_Row]):
    """Rows that are switched on and off."""

    def set_enabled(self, enabled: bool, reason: str = "") -> int:
        """Switch the rows on or off one by one, so that each change lands in the history; give the count."""
        changed = 0
        for row in self.exclude(enabled=enabled):
            entry: Any = row
            entry.enabled = enabled
            entry.change_reason = reason
            entry.save(update_fields=["enabled", "updated_at"])
            changed += 1
        return changed


def keep_groups(model: Any) -> None:
    """Refuse to delete a group that rows are reserved to: without their last group they would be for everyone."""
    through = model.groups.through
    through._meta.get_field("group").remote_field.on_delete = models.PROTECT
    through.__str__ = lambda row: str(getattr(row, model._meta.model_name))


def misplaced(row: Any, offer: str) -> Any:
    """Return the reason if a row cannot belong to its workspace: an upstream's offers belong to that of its
    connection.
    """
    of = getattr(row, offer, None)
    if of is None or of.connection.workspace_id == row.workspace_id:
        return ""
    return _("It belongs to its connection's workspace. Change it there: %(slug)s.") % {"slug": of.connection.slug}


class Content(OwnedModel, LoadableModel):
    """The columns that resources and prompts share."""

    GUARDED_LINKS = ("groups",)
    IS_SHARED = True

    title = models.CharField(_("title"), max_length=200, blank=True, help_text=_("Shown to people."))
    description = models.TextField(
        _("description"), blank=True, help_text=_("Read by models and people: describe its purpose.")
    )
    function = models.CharField(
        _("function"), max_length=200, blank=True, help_text=_("A registered Python function: module:name.")
    )
    timeout_seconds = models.FloatField(
        _("timeout in seconds"),
        default=30.0,
        validators=[MinValueValidator(0.1), MaxValueValidator(3600)],
        help_text=_("For a Python function."),
    )
    completions = JSONText(
        _("completions"),
        default=dict,
        blank=True,
        help_text=_('Suggestions while a client types, by variable: {"city": ["Oslo", …]} or {"function": …}.'),
    )
    icons = JSONText(
        _("icons"), default=list, blank=True, help_text=_('A list such as [{"src": "https://…", "mimeType": …}].')
    )
    meta = JSONText(_("metadata"), default=dict, blank=True, help_text=_("Sent to clients as _meta."))
    enabled = models.BooleanField(_("enabled"), default=True)
    groups = models.ManyToManyField(
        Group,
        verbose_name=_("groups"),
        blank=True,
        help_text=_("Groups that can see and read it. Leave blank for every caller."),
    )
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    DEFINING: ClassVar[tuple[str, ...]] = ()
    """The columns that define the content for clients."""
    JSON_COLUMNS: ClassVar[tuple[str, ...]] = ("completions", "icons", "meta")
    backend: Any

    class Meta:
        abstract = True

    def digest(self) -> str:
        """Return a digest of this definition and content."""
        return json.digest(json.canonical({field: getattr(self, field) for field in self.DEFINING}))

    def _check(self, problems: dict[str, Json], registry: dict[str, offered.Offered], variables: set[str]) -> None:
        """Collect the problems of the shared columns; `variables` are those that completions may name."""
        checks: dict[str, Callable[[Any], None]] = {
            "completions": lambda value: described.check_completions(value, variables),
            "icons": described.check_icons,
            "meta": described.check_object,
        }
        for field, check in checks.items():
            try:
                check(getattr(self, field))
            except ValueError as error:
                problems[field] = str(error)
        if self.backend == "python" and self.function not in registry:
            problems["function"] = _("No function named %(name)r is registered. Registered: %(known)s") % {
                "name": self.function,
                "known": ", ".join(sorted(registry)) or "-",
            }

        if problem := misplaced(self, "upstream_offer"):
            problems["workspace"] = problem
        if self.backend == "upstream" and getattr(self, "upstream_offer", None) is None:
            problems["backend"] = _("Upstream content is added by approval; choose another backend.")

    def _check_length(self, problems: dict[str, Json], field: str, length: int) -> None:
        if length > settings.MCPHUB_MAX_RESOURCE_BYTES:
            problems[field] = _("This is longer than %(limit)s bytes (limit max_resource_bytes).") % {
                "limit": settings.MCPHUB_MAX_RESOURCE_BYTES
            }


class ResourceBackend(models.TextChoices):
    TEXT = "text", _("Text")
    BLOB = "blob", _("Binary, in base64")
    PYTHON = "python", _("Python function")
    UPSTREAM = "upstream", _("Upstream MCP server")


class McpResource(Content):
    """A resource as `resources/list` declares it, or many of them by one URI template."""

    RECORDED_AS = "resource"
    GUARDED: ClassVar[dict[str, Any]] = {"meta": {}}
    """Of a view the hosts outside that it reaches: what it shows may leave by them."""
    JUDGED_BY = ("content", "function")

    DEFINING = (
        "uri",
        "name",
        "title",
        "description",
        "mime_type",
        "annotations",
        "backend",
        "content",
        "function",
        "icons",
        "meta",
        "completions",
    )
    JSON_COLUMNS = (*Content.JSON_COLUMNS, "annotations")

    uri = models.CharField(
        "URI",
        max_length=1000,
        unique=True,
        validators=[RegexValidator(URI, _("Enter an absolute URI, such as docs://handbook/start."))],
        help_text=_("A URI, or a template with variables (RFC 6570): docs://chapter/{number}."),
    )
    name = models.CharField(_("name"), max_length=200, help_text=_("Shown by clients if there is no title."))
    mime_type = models.CharField(
        _("MIME type"),
        max_length=200,
        blank=True,
        validators=[RegexValidator(_MIME_TYPE, _("Enter a media type, such as text/markdown."))],
    )
    annotations = JSONText(
        _("annotations"),
        default=dict,
        blank=True,
        help_text=_('For clients: {"audience": ["user", "assistant"], "priority": 0.5, "lastModified": "2026-…"}.'),
    )
    backend = models.CharField(_("backend"), max_length=10, choices=ResourceBackend, default=ResourceBackend.TEXT)
    content = models.TextField(
        _("content"),
        blank=True,
        help_text=_("Text, or bytes in base64. In a template, {variable} is replaced by its value."),
    )

    objects = Switchable.as_manager()

    class Meta:
        verbose_name = _("resource")
        verbose_name_plural = _("resources")
        ordering = ["uri"]
        constraints = [
            models.CheckConstraint(condition=Q(uri__regex=URI.pattern), name="resource_uri_absolute"),
            models.CheckConstraint(condition=~Q(name=""), name="resource_name_present"),
            models.CheckConstraint(condition=Q(backend__in=ResourceBackend.values), name="resource_backend_known"),
            models.CheckConstraint(condition=Q(timeout_seconds__gt=0), name="resource_timeout_positive"),
            models.CheckConstraint(
                condition=(Q(backend="python", content="") & ~Q(function=""))
                | Q(backend="upstream", content="", function="")
                | (~Q(backend__in=["python", "upstream"]) & Q(function="")),
                name="resource_content_or_function",
                violation_error_message=_("A resource needs content, or the backend Python and a function."),
            ),
            models.CheckConstraint(
                condition=~Q(backend="blob", uri__contains="{"),
                name="resource_template_is_not_blob",
                violation_error_message=_("A template needs text or a function."),
            ),
        ]

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        wanted = mcp_apps.domains(self.meta)
        if not wanted or not mcp_apps.is_view(self.uri):
            return {}
        is_same = stored is not None and all(stored[name] == getattr(self, name) for name in self.JUDGED_BY)
        if is_same and stored is not None and mcp_apps.domains(stored["meta"]) >= wanted:
            return {}
        return {"meta": mcp_apps.without_domains(self.meta)}

    def __str__(self) -> str:
        return self.uri

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        variables: set[str] = set()
        try:
            variables = set(uritemplate.parse(self.uri).names)
        except ValueError as error:
            problems["uri"] = str(error)
        self._check(problems, offered.resources, variables)
        try:
            described.check_annotations(self.annotations, is_foreign=self.backend == "upstream")
        except ValueError as error:
            problems["annotations"] = str(error)
        if self.backend == ResourceBackend.BLOB:
            try:
                base64.b64decode(self.content, validate=True)
            except (binascii.Error, ValueError):
                problems["content"] = _("This is not base64.")
        if mcp_apps.is_view(self.uri) and self.mime_type != mcp_apps.MIME_TYPE and self.backend != "upstream":
            problems["mime_type"] = _("A view (URI ui://…) needs the media type %(type)s.") % {
                "type": mcp_apps.MIME_TYPE
            }
        self._check_length(problems, "content", len(self.content.encode("utf-8", "surrogatepass")))
        if "\x00" in self.content:
            problems["content"] = _("The text contains a NUL character, which the database can't store.")
        if problems:
            raise ValidationError(problems)

    @property
    def is_template(self) -> bool:
        return uritemplate.is_template(self.uri)


class PromptBackend(models.TextChoices):
    MESSAGES = "messages", _("Messages")
    PYTHON = "python", _("Python function")
    UPSTREAM = "upstream", _("Upstream MCP server")


class McpPrompt(Content):
    """A prompt as `prompts/list` declares it, with its messages."""

    RECORDED_AS = "prompt"

    DEFINING = (
        "name",
        "title",
        "description",
        "arguments",
        "backend",
        "messages",
        "function",
        "icons",
        "meta",
        "completions",
    )
    JSON_COLUMNS = (*Content.JSON_COLUMNS, "arguments", "messages")

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[RegexValidator(NAME, _("Use 1 to 64 of the characters A-Z a-z 0-9 _ . -"))],
        help_text=_("What clients ask for. 1 to 64 of A-Z a-z 0-9 _ . -"),
    )
    arguments = JSONText(
        _("arguments"),
        default=list,
        blank=True,
        help_text=_('A list: [{"name": "city", "description": "…", "required": true}].'),
    )
    backend = models.CharField(_("backend"), max_length=10, choices=PromptBackend, default=PromptBackend.MESSAGES)
    messages = JSONText(
        _("messages"),
        default=list,
        blank=True,
        help_text=_(
            'A list: [{"role": "user", "content": "Weather in {city}?"}]. {argument} is replaced by its value.'
        ),
    )

    objects = Switchable.as_manager()

    class Meta:
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(name__regex=NAME.pattern), name="prompt_name_wellformed"),
            models.CheckConstraint(condition=Q(backend__in=PromptBackend.values), name="prompt_backend_known"),
            models.CheckConstraint(condition=Q(timeout_seconds__gt=0), name="prompt_timeout_positive"),
            models.CheckConstraint(
                condition=(Q(backend="python", messages=[]) & ~Q(function=""))
                | Q(backend="upstream", messages=[], function="")
                | (Q(backend="messages", function="") & ~Q(messages=[])),
                name="prompt_messages_or_function",
                violation_error_message=_("A prompt needs messages, or the backend Python and a function."),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        names: set[str] = set()
        try:
            names = described.check_arguments(self.arguments, is_foreign=self.backend == "upstream")
        except ValueError as error:
            problems["arguments"] = str(error)
        if refusal := McpAlias.objects.refusal_of(self, self.name):
            problems["name"] = refusal
        self._check(problems, offered.prompts, names)
        try:
            described.check_messages(self.messages)
            self._check_length(problems, "messages", len(json.dumps(self.messages)))
        except ValueError as error:
            problems["messages"] = str(error)
        if problems:
            raise ValidationError(problems)


keep_groups(McpResource)
keep_groups(McpPrompt)
