"""Other MCP servers as rows: how to reach them, how each process stands with them, and what they offer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Case, F, Q, Value, When
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from simple_history.models import HistoricalRecords

from sessions_app.fields import JSONText
from sessions_app.protocol.errors import EgressRefused
from tools_catalog.egress_rules import EgressPolicy
from tools_catalog.upstream import spec
from tools_catalog.upstream.states import LinkState

if TYPE_CHECKING:
    from tools_catalog.upstream.listing import Listed

SLUG = re.compile(r"^[a-z0-9][a-z0-9_-]{0,31}\Z")


class LaunchProfile(models.Model):
    """A command that the hub may run as a child process. Who may write one runs programs on this machine."""

    class Instances(models.TextChoices):
        EACH = "each", _("One in each worker process")
        SINGLE = "single", _("One in the whole hub")

    name = models.CharField(
        _("name"), max_length=32, unique=True,
        validators=[RegexValidator(SLUG, _("Use 1 to 32 of a-z 0-9 _ -, beginning with a letter or digit."))],
        help_text=_("Secrets name NAME.stdio as their host to be used in its environment."),
    )  # fmt: skip
    command = models.CharField(
        _("command"), max_length=500, help_text=_("A program: its path, or a name found in PATH. No shell reads it.")
    )
    arguments = JSONText(_("arguments"), default=list, blank=True, help_text=_("A list of words, passed as they are."))
    environment = JSONText(
        _("environment"), default=dict, blank=True,
        help_text=_("Variables by name; {secret:NAME} stands for a secret. PATH, HOME and the like come from the hub."),
    )  # fmt: skip
    directory = models.CharField(_("directory"), max_length=500, blank=True)
    memory_mb = models.PositiveIntegerField(
        _("memory in MB"), default=0, help_text=_("Address space of each process. 0: no limit.")
    )
    cpu_seconds = models.PositiveIntegerField(
        _("processor time in seconds"), default=0, help_text=_("Of each process, in its whole life. 0: no limit.")
    )
    open_files = models.PositiveIntegerField(_("open files"), default=256, validators=[MinValueValidator(16)])
    instances = models.CharField(_("instances"), max_length=10, choices=Instances, default=Instances.EACH)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    history = HistoricalRecords()

    class Meta:
        verbose_name = _("launch profile")
        verbose_name_plural = _("launch profiles")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=~Q(command=""), name="launch_profile_command_present"),
            models.CheckConstraint(condition=Q(name__regex=SLUG.pattern), name="launch_profile_name_wellformed"),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        for field, parse in (("arguments", spec.parse_arguments), ("environment", spec.parse_environment)):
            try:
                parse(getattr(self, field))
            except ValueError as error:
                problems[field] = str(error)
        if "\x00" in self.command or self.command.startswith("-"):
            problems["command"] = _("Name a program.")
        if problems:
            raise ValidationError(problems)

    def spec(self) -> spec.LaunchSpec:
        return spec.LaunchSpec(
            name=self.name, command=self.command, arguments=spec.parse_arguments(self.arguments),
            environment=spec.parse_environment(self.environment), directory=self.directory,
            memory_mb=self.memory_mb, cpu_seconds=self.cpu_seconds, open_files=self.open_files,
            is_single=self.instances == self.Instances.SINGLE,
        )  # fmt: skip


class McpConnectionQuerySet(models.QuerySet["McpConnection"]):
    def with_status(self) -> McpConnectionQuerySet:
        """Say of each how its processes stand with it: the worst that one of them reports."""
        worst = Case(
            *(When(status=state.value, then=Value(rank)) for rank, state in enumerate(_WORST_FIRST)),
            output_field=models.IntegerField(),
        )
        links = McpConnectionLink.objects.filter(connection=models.OuterRef("pk")).annotate(rank=worst)
        return self.annotate(link_status=models.Subquery(links.order_by("rank").values("status")[:1]))


_WORST_FIRST = (LinkState.ERROR, LinkState.CONNECTING, LinkState.CONNECTED, LinkState.DISCONNECTED)


class McpConnection(models.Model):
    """Another MCP server whose tools the hub serves (seed 003: MCPConnection)."""

    class Transport(models.TextChoices):
        STDIO = spec.STDIO, _("stdio: a child process")
        SSE = spec.SSE, _("HTTP+SSE")
        STREAMABLE_HTTP = spec.STREAMABLE_HTTP, _("Streamable HTTP")

    class Status(models.TextChoices):
        CONNECTING = LinkState.CONNECTING.value, _("Connecting")
        CONNECTED = LinkState.CONNECTED.value, _("Connected")
        DISCONNECTED = LinkState.DISCONNECTED.value, _("Disconnected")
        ERROR = LinkState.ERROR.value, _("Error")

    class Policy(models.TextChoices):
        HOLD_ALL = "hold_all", _("Hold everything until somebody approves it")
        HOLD_CHANGES = "hold_changes", _("Serve new tools, hold changed ones")
        TRUST = "trust", _("Trust: serve whatever it offers")

    class Sessions(models.TextChoices):
        AUTO = "auto", _("One for each caller, one in all for a child process")
        SHARED = "shared", _("One for all callers")

    slug = models.CharField(
        _("name"), max_length=32, unique=True,
        validators=[RegexValidator(SLUG, _("Use 1 to 32 of a-z 0-9 _ -, beginning with a letter or digit."))],
        help_text=_("Stays for ever: tools and records name it."),
    )  # fmt: skip
    title = models.CharField(_("title"), max_length=200, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    transport = models.CharField(_("transport"), max_length=20, choices=Transport)
    url = models.CharField(
        _("address"), max_length=2000, blank=True, help_text=_("Of the MCP endpoint, without credentials.")
    )
    headers = JSONText(
        _("headers"), default=dict, blank=True,
        help_text=_('Sent with each request: {"Authorization": "Bearer {secret:NAME}"}.'),
    )  # fmt: skip
    profile = models.ForeignKey(
        LaunchProfile, models.PROTECT, null=True, blank=True, verbose_name=_("launch profile"),
        related_name="connections", help_text=_("The child process of a stdio connection."),
    )  # fmt: skip
    policy = models.CharField(_("policy"), max_length=20, choices=Policy, default=Policy.HOLD_ALL)
    keeps_serving = models.BooleanField(
        _("keep serving changed words"), default=False,
        help_text=_("Serve the approved tool while a change of its words waits. A changed schema is always withheld."),
    )  # fmt: skip
    prefix = models.CharField(
        _("prefix"), max_length=40, blank=True, validators=[RegexValidator(r"^[A-Za-z0-9_.-]*\Z")],
        help_text=_("Put before the names of its tools. Empty when added: its name and a full stop."),
    )  # fmt: skip
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), blank=True, help_text=_("Given to its tools when they are first approved.")
    )
    sessions = models.CharField(_("sessions"), max_length=10, choices=Sessions, default=Sessions.AUTO)
    may_ask = models.BooleanField(
        _("may ask the user"), default=True,
        help_text=_("Pass its questions (elicitation, sampling, roots) on to the client that called."),
    )  # fmt: skip
    starts_eagerly = models.BooleanField(
        _("connect at the start"), default=False, help_text=_("Otherwise with the first call.")
    )
    idle_seconds = models.PositiveIntegerField(
        _("disconnect when idle for seconds"), default=300, help_text=_("0: never.")
    )
    refresh_seconds = models.PositiveIntegerField(
        _("list the tools again after seconds"), default=300, validators=[MaxValueValidator(86400)],
        help_text=_("No call is made on an older list. 0: before each call."),
    )  # fmt: skip
    connect_seconds = models.PositiveIntegerField(
        _("seconds to connect"), default=30, validators=[MinValueValidator(1), MaxValueValidator(300)]
    )
    max_concurrent = models.PositiveIntegerField(
        _("calls at once"), default=32, validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("In each worker process. Others wait."),
    )  # fmt: skip
    max_response_bytes = models.PositiveIntegerField(
        _("largest answer in bytes"), default=8 * 1024 * 1024,
        validators=[MinValueValidator(1024), MaxValueValidator(256 * 1024 * 1024)],
    )  # fmt: skip
    max_notifications = models.PositiveIntegerField(
        _("notifications in ten seconds"), default=1000, validators=[MinValueValidator(1)]
    )
    discovered_at = models.DateTimeField(_("tools listed"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = McpConnectionQuerySet.as_manager()
    history = HistoricalRecords(m2m_fields=[groups], excluded_fields=["discovered_at"])
    _change_reason: str | None = None

    class Meta:
        verbose_name = _("connection")
        verbose_name_plural = _("connections")
        ordering = ["slug"]
        permissions = [("launch_mcpconnection", _("Can make connections that run a launch profile"))]
        constraints = [
            models.CheckConstraint(condition=Q(slug__regex=SLUG.pattern), name="connection_slug_wellformed"),
            models.CheckConstraint(condition=Q(transport__in=spec.TRANSPORTS), name="connection_transport_known"),
            models.CheckConstraint(
                condition=Q(policy__in=["hold_all", "hold_changes", "trust"]), name="connection_policy_known"
            ),
            models.CheckConstraint(
                condition=Q(transport=spec.STDIO, profile__isnull=False, url="")
                | (~Q(transport=spec.STDIO) & Q(profile__isnull=True) & ~Q(url="")),
                name="connection_url_or_profile",
                violation_error_message=_("A stdio connection has a launch profile, every other an address."),
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        try:
            spec.parse_headers(self.headers)
        except ValueError as error:
            problems["headers"] = str(error)
        if self.url:
            try:
                EgressPolicy.from_settings().check_url(self.url)
            except EgressRefused as error:
                problems["url"] = str(error)
        if self.pk:
            before = McpConnection.objects.filter(pk=self.pk).only("slug", "transport").first()
            for field in ("slug", "transport"):
                if before is not None and getattr(self, field) != getattr(before, field):
                    problems[field] = _("This stays as it was. Add another connection.")
        # Also a constraint; but a form that does not show the transport leaves the constraint unchecked.
        is_child = self.transport == spec.STDIO
        if is_child is not bool(self.profile) or is_child is bool(self.url):
            problems["__all__"] = _("A stdio connection has a launch profile, every other an address.")
        if problems:
            raise ValidationError(problems)

    def save(self, *args: Any, **kwargs: Any) -> None:
        if self._state.adding and not self.prefix:
            self.prefix = f"{self.slug}."
        super().save(*args, **kwargs)

    @property
    def status(self) -> str:
        """The worst that a process reports of it; `disconnected` where none holds it."""
        if "link_status" in self.__dict__:
            return self.__dict__["link_status"] or LinkState.DISCONNECTED.value
        found = set(self.links.values_list("status", flat=True))
        return next((state.value for state in _WORST_FIRST if state.value in found), LinkState.DISCONNECTED.value)

    def spec(self) -> spec.ConnectionSpec:
        """Give what a process connects by. Raises ValueError where the stored words cannot be read."""
        return spec.ConnectionSpec(
            id=self.pk, slug=self.slug, transport=self.transport, url=self.url,
            headers=spec.parse_headers(self.headers), launch=self.profile.spec() if self.profile else None,
            starts_eagerly=self.starts_eagerly, separates_callers=self.sessions == self.Sessions.AUTO,
            may_ask=self.may_ask, connect_seconds=self.connect_seconds, idle_seconds=self.idle_seconds,
            refresh_seconds=self.refresh_seconds, max_concurrent=self.max_concurrent,
            max_response_bytes=self.max_response_bytes, max_notifications=self.max_notifications,
        )  # fmt: skip


class McpConnectionLink(models.Model):
    """How one process of the hub stands with one connection. Its steps are those of `upstream.states`."""

    connection = models.ForeignKey(McpConnection, models.CASCADE, related_name="links", verbose_name=_("connection"))
    process_id = models.CharField(_("process"), max_length=64)
    status = models.CharField(_("status"), max_length=20, choices=McpConnection.Status)
    error_message = models.CharField(_("last error"), max_length=1000, blank=True)
    stderr = models.TextField(_("last words on stderr"), blank=True)
    protocol_version = models.CharField(_("protocol version"), max_length=20, blank=True)
    server = models.CharField(_("server"), max_length=200, blank=True)
    latency_ms = models.FloatField(_("last answer after ms"), null=True, blank=True)
    restarts = models.PositiveIntegerField(_("reconnections"), default=0)
    calls = models.PositiveBigIntegerField(_("calls"), default=0)
    failures = models.PositiveBigIntegerField(_("failed calls"), default=0)
    failed_in_a_row = models.PositiveIntegerField(_("failed calls in a row"), default=0)
    paused_until = models.DateTimeField(_("left alone until"), null=True, blank=True)
    """Of this process: after failed calls in a row it makes none, and then one as a trial."""
    holds_lease = models.BooleanField(default=False)
    """This process runs the one child of a profile that allows one in the whole hub."""
    connected_at = models.DateTimeField(_("connected"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("state of a connection")
        verbose_name_plural = _("states of connections")
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


class McpUpstreamTool(models.Model):
    """What an upstream offers, a tool or what is read beside tools: as it was last seen, and as it was approved
    (seed 003: MCPTool)."""

    class Kind(models.TextChoices):
        TOOL = "tool", _("Tool")
        RESOURCE = "resource", _("Resource")
        TEMPLATE = "template", _("Resource template")
        PROMPT = "prompt", _("Prompt")

    class State(models.TextChoices):
        NEW = "new", _("New")
        CHANGED = "changed", _("Changed")
        APPROVED = "approved", _("Approved")
        REJECTED = "rejected", _("Rejected")
        REFUSED = "refused", _("Refused")
        GONE = "gone", _("No longer offered")

    connection = models.ForeignKey(McpConnection, models.CASCADE, related_name="tools", verbose_name=_("connection"))
    kind = models.CharField(_("kind"), max_length=10, choices=Kind, default=Kind.TOOL, editable=False)
    upstream_name = models.CharField(_("name there"), max_length=1000, help_text=_("Of a resource its URI."))
    name = models.CharField(
        _("name here"), max_length=1000, help_text=_("What clients will call it once it is approved.")
    )
    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition", models.SET_NULL, null=True, blank=True, related_name="upstream_tool",
        verbose_name=_("tool"), editable=False,
    )  # fmt: skip
    resource = models.OneToOneField(
        "tools_catalog.McpResource", models.SET_NULL, null=True, blank=True, related_name="upstream_offer",
        verbose_name=_("resource"), editable=False,
    )  # fmt: skip
    prompt = models.OneToOneField(
        "tools_catalog.McpPrompt", models.SET_NULL, null=True, blank=True, related_name="upstream_offer",
        verbose_name=_("prompt"), editable=False,
    )  # fmt: skip
    seen = JSONText(_("as it offers it"), editable=False)
    seen_digest = models.CharField(max_length=64, editable=False)
    seen_schema_digest = models.CharField(max_length=64, editable=False)
    seen_at = models.DateTimeField(_("seen so"), default=timezone.now, editable=False)
    approved = JSONText(_("as it was approved"), default=dict, blank=True, editable=False)
    approved_digest = models.CharField(max_length=64, blank=True, editable=False)
    approved_schema_digest = models.CharField(max_length=64, blank=True, editable=False)
    rejected_digest = models.CharField(max_length=64, blank=True, editable=False)
    renamed_from = models.CharField(_("was called"), max_length=1000, blank=True, editable=False)
    refusal = models.CharField(_("why it cannot be served"), max_length=1000, blank=True, editable=False)
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

    history = HistoricalRecords(excluded_fields=["state"])

    class Meta:
        verbose_name = _("offer of an upstream")
        verbose_name_plural = _("offers of upstreams")
        ordering = ["connection", "kind", "upstream_name"]
        default_permissions = ("view", "change")
        permissions = [("approve_mcpupstreamtool", _("Can approve tools of upstreams"))]
        constraints = [
            models.UniqueConstraint(fields=["connection", "kind", "upstream_name"], name="upstream_offer_once"),
            models.CheckConstraint(
                condition=Q(kind__in=["tool", "resource", "template", "prompt"]), name="upstream_offer_kind_known"
            ),
        ]
        indexes = [models.Index(fields=["state"], name="upstream_tool_by_state")]  # the inbox of the admin

    def __str__(self) -> str:
        return self.upstream_name[:100]

    @property
    def served(self) -> Any:
        """The row of the catalogue that it became, or None."""
        return self.tool or self.resource or self.prompt

    def is_withheld(self, connection: McpConnection) -> bool:
        """Whether it must not be called, though it was approved once."""
        if self.is_gone:
            return True
        if connection.policy == McpConnection.Policy.TRUST or self.seen_digest == self.approved_digest:
            return False
        return not (connection.keeps_serving and self.seen_schema_digest == self.approved_schema_digest)

    def see(self, listed: Listed) -> None:
        """Take down what the upstream says now."""
        self.seen, self.seen_digest, self.seen_schema_digest = listed.definition, listed.digest, listed.schema_digest
        self.seen_at = timezone.now()
        self.is_gone = False
