"""Other MCP servers as rows: how to reach them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from types import ModuleType
from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models, transaction
from django.db.models import Case, Q, Value, When
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app import bus
from sessions_app.history import recording
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.errors import EgressRefused
from sessions_app.workspaces.scope import OwnedModel, OwnedQuerySet
from tools_catalog.bindings import CONNECTION, Destination, origin_of
from tools_catalog.call.base import Json
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.literals import parameter_with_credential
from tools_catalog.models.content import keep_groups
from tools_catalog.models.launch import LaunchProfile
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.moving import Moving
from tools_catalog.models.places import BY_WORD_GUARDED, AccountPlaceModel, problem_of_address
from tools_catalog.models.secrets import Secret
from tools_catalog.models.short_names import SHORT_NAME, check_short_name
from tools_catalog.upstream import spec, vendors
from tools_catalog.upstream.account import JAG_ACCOUNT, OF_PERSONS
from tools_catalog.upstream.asking import Asking
from tools_catalog.upstream.spec import Identity
from tools_catalog.upstream.states import LinkState


def may_launch(user: Any) -> bool:
    """Return whether a person may write and test connections that run a program."""
    return bool(user.has_perm("tools_catalog.launch_mcpconnection"))


class McpConnectionQuerySet(OwnedQuerySet["McpConnection"]):
    def with_status(self) -> McpConnectionQuerySet:
        """Annotate each with its status, the worst reported by a process, and with its reconnects."""
        from tools_catalog.models.links import McpConnectionLink

        worst = Case(
            *(When(status=state.value, then=Value(rank)) for rank, state in enumerate(_WORST_FIRST)),
            output_field=models.IntegerField(),
        )
        links = McpConnectionLink.objects.filter(connection=models.OuterRef("pk")).annotate(rank=worst)
        grouped = links.order_by().values("connection")
        return self.annotate(
            link_status=models.Subquery(links.order_by("rank").values("status")[:1]),
            link_restarts=models.Subquery(grouped.annotate(all=models.Sum("restarts")).values("all")),
            link_reconnected=models.Subquery(grouped.annotate(last=models.Max("reconnected_at")).values("last")),
        )

    def note_unprobed(self, reached: spec.ConnectionSpec, server: str) -> None:
        """Keep which server did not answer a probe; empty: that none is known. It is no edit of the connection."""
        note = f"{reached.reach} {server}"[:300] if server else ""
        self.filter(pk=reached.id).exclude(unprobed=note).update(unprobed=note)

    def note_declared(self, reached: spec.ConnectionSpec, shown: dict[str, dict[str, Json]]) -> None:
        """Keep the vendors' extensions that an upstream declares. It is no edit of the connection."""
        if self.filter(pk=reached.id).exclude(declares=shown).update(declares=shown):
            bus.publish(bus.TOOLS_CHANGED)


_WORST_FIRST = (LinkState.ERROR, LinkState.CONNECTING, LinkState.CONNECTED, LinkState.DISCONNECTED)


class McpConnection(OwnedModel, AccountPlaceModel, LoadableModel):
    """Another MCP server with tools served by the hub."""

    of = "connection"
    UNRECORDED = (*LoadableModel.UNRECORDED, "discovered_at", "unprobed", "declares")
    GUARDED: ClassVar[dict[str, Any]] = {
        "policy": "hold_all",
        "keeps_serving": False,
        "generated_skills": False,
        "may_ask_secrets": False,
        "may_sample": False,
        "may_list_roots": False,
        "extensions": [],
        **BY_WORD_GUARDED,
        "issuer": "",
        "sends_resource": True,
    }
    OF_ACCOUNT: ClassVar[dict[str, Any]] = {**BY_WORD_GUARDED, "issuer": "", "sends_resource": True}
    GUARDED_AS_STORED = ("workspace_id",)
    GUARDED_LINKS = ("groups",)
    WHERE = BOUND = ("url", "profile_id")

    class Transport(models.TextChoices):
        STDIO = spec.STDIO, _("stdio: a child process")
        SSE = spec.SSE, _("HTTP+SSE")
        STREAMABLE_HTTP = spec.STREAMABLE_HTTP, _("Streamable HTTP")

    class Era(models.TextChoices):
        AUTO = spec.AUTO, _("Detect automatically")
        HANDSHAKE = spec.HANDSHAKE, _("Handshake: revisions up to 2025-11-25")
        STATELESS = spec.STATELESS, _("Stateless: revisions from 2026-07-28 on")

    class Status(models.TextChoices):
        CONNECTING = LinkState.CONNECTING.value, _("Connecting")
        CONNECTED = LinkState.CONNECTED.value, _("Connected")
        DISCONNECTED = LinkState.DISCONNECTED.value, _("Disconnected")
        ERROR = LinkState.ERROR.value, _("Error")

    class Policy(models.TextChoices):
        HOLD_ALL = "hold_all", _("Hold everything until somebody approves it")
        HOLD_CHANGES = "hold_changes", _("Accept new tools, hold changed ones")
        TRUST = "trust", _("Trust: accept everything it offers")

    class Sessions(models.TextChoices):
        AUTO = "auto", _("One per caller (one in all for a child process)")
        SHARED = "shared", _("One for all callers")

    slug = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[check_short_name],
        help_text=_("Permanent: tools and records refer to it."),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    transport = models.CharField(_("transport"), max_length=20, choices=Transport)
    url = models.CharField(
        _("address"), max_length=2000, blank=True, help_text=_("The URL of the MCP endpoint, without credentials.")
    )
    headers = JSONText(
        _("headers"),
        default=dict,
        blank=True,
        help_text=_('Sent with each request: {"Authorization": "Bearer {secret:NAME}"}.'),
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=500,
        blank=True,
        help_text=_(
            "Leave blank to use the one the server names. If its own metadata spell it differently, enter it exactly "
            "as there, including a trailing slash. Risk: all sign-ins go there, whatever the server says."
        ),
    )
    sends_resource = models.BooleanField(
        _("send the resource parameter"),
        default=True,
        help_text=_("The parameter resource (RFC 8707). Turn it off if the issuer rejects it."),
    )
    identity = models.ForeignKey(
        "tools_catalog.HttpService",
        models.PROTECT,
        null=True,
        blank=True,
        verbose_name=_("company's issuer"),
        related_name="vouches_for",
        help_text=_("For accounts through the company's issuer: the service with the accounts that identify people."),
    )
    lists_per_person = models.BooleanField(
        _("lists depend on the user"),
        default=False,
        help_text=_("List tools with each person's account too: people see the list of their own account."),
    )
    profile = models.ForeignKey(
        LaunchProfile,
        models.PROTECT,
        null=True,
        blank=True,
        verbose_name=_("launch profile"),
        related_name="connections",
        help_text=_("The child process of a stdio connection."),
    )
    era = models.CharField(
        _("protocol era"),
        max_length=10,
        choices=Era,
        default=Era.AUTO,
        help_text=_(
            "Set this only if the server breaks when the hub probes its protocol version. HTTP+SSE always has "
            "the handshake."
        ),
    )
    policy = models.CharField(_("policy"), max_length=20, choices=Policy, default=Policy.HOLD_ALL)
    keeps_serving = models.BooleanField(
        _("allow changed texts"),
        default=False,
        help_text=_(
            "Keep the approved tool available while a change of its texts waits. A changed schema always holds "
            "the tool."
        ),
    )
    generated_skills = models.BooleanField(
        _("allow generated skills"),
        default=False,
        help_text=_(
            "Skills whose files the upstream makes at each read may be approved. The approval covers name and "
            "description alone: each read returns what the upstream sends then."
        ),
    )
    prefix = models.CharField(
        _("prefix"),
        max_length=40,
        blank=True,
        validators=[RegexValidator(r"^[A-Za-z0-9_.-]*\Z")],
        help_text=_(
            "Put before the names of its tools and prompts. Leave blank for the connection's name and _. A "
            "change renames them; former names keep working for some days."
        ),
    )
    groups = models.ManyToManyField(
        Group, verbose_name=_("groups"), blank=True, help_text=_("Assigned to its tools when they are first approved.")
    )
    sessions = models.CharField(_("sessions"), max_length=10, choices=Sessions, default=Sessions.AUTO)
    may_ask = models.BooleanField(
        _("may ask the user"),
        default=True,
        help_text=_("Forward its forms and links (elicitation) to the calling client."),
    )
    may_ask_secrets = models.BooleanField(
        _("may ask for passwords"),
        default=False,
        help_text=_("Also forward forms with fields for passwords, tokens, keys and card numbers."),
    )
    may_sample = models.BooleanField(
        _("may use the client's model"),
        default=False,
        help_text=_("Forward its model requests (sampling) to the calling client."),
    )
    may_list_roots = models.BooleanField(
        _("may list the client's folders"),
        default=False,
        help_text=_("Send it the folders (roots) that the client works in."),
    )
    extensions = JSONText(
        _("passed extensions"),
        default=list,
        blank=True,
        help_text=_(
            'Extensions of other vendors, by name: ["com.example/search"]. Clients and the upstream learn that the '
            "other side declares them. Their methods and notifications aren't forwarded."
        ),
    )
    starts_eagerly = models.BooleanField(
        _("connect at start"), default=False, help_text=_("Otherwise with the first call.")
    )
    idle_seconds = models.PositiveIntegerField(
        _("disconnect after idle seconds"), default=300, help_text=_("0: never.")
    )
    refresh_seconds = models.PositiveIntegerField(
        _("refresh tools after seconds"),
        default=300,
        validators=[MaxValueValidator(86400)],
        help_text=_("No call is made on an older list. 0: refresh before each call."),
    )
    connect_seconds = models.PositiveIntegerField(
        _("connect timeout, seconds"), default=30, validators=[MinValueValidator(1), MaxValueValidator(300)]
    )
    max_concurrent = models.PositiveIntegerField(
        _("concurrent calls"),
        default=32,
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text=_("Per worker process. Others wait."),
    )
    max_response_bytes = models.PositiveIntegerField(
        _("maximum response, bytes"),
        default=8 * 1024 * 1024,
        validators=[MinValueValidator(1024), MaxValueValidator(256 * 1024 * 1024)],
    )
    max_notifications = models.PositiveIntegerField(
        _("notifications in ten seconds"), default=1000, validators=[MinValueValidator(1)]
    )
    unprobed = models.CharField(max_length=300, blank=True, editable=False)
    """A digest of the address, and of the server there, by its own name and version, that did not answer a probe."""
    declares = JSONText(default=dict, blank=True, editable=False)
    """The extensions that it passes and that the upstream declared last, as members of capabilities."""
    discovered_at = models.DateTimeField(_("tools listed"), null=True, blank=True, editable=False)
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = McpConnectionQuerySet.as_manager()

    change_author: Any = None
    """The editor, for the versions of tools that the edit renames."""
    _moving: Moving | None = None

    class Meta:
        verbose_name = _("connection")
        verbose_name_plural = _("connections")
        ordering = ["slug"]
        permissions = [("launch_mcpconnection", _("Can create connections that run a launch profile"))]
        constraints = [
            models.CheckConstraint(condition=Q(slug__regex=SHORT_NAME.pattern), name="connection_slug_wellformed"),
            models.CheckConstraint(condition=Q(transport__in=spec.TRANSPORTS), name="connection_transport_known"),
            models.CheckConstraint(condition=Q(era__in=spec.ERAS), name="connection_era_known"),
            models.CheckConstraint(condition=Q(account__in=spec.ACCOUNTS), name="connection_account_known"),
            models.CheckConstraint(
                condition=Q(policy__in=["hold_all", "hold_changes", "trust"]), name="connection_policy_known"
            ),
            models.CheckConstraint(
                condition=Q(transport=spec.STDIO, profile__isnull=False, url="")
                | (~Q(transport=spec.STDIO) & Q(profile__isnull=True) & ~Q(url="")),
                name="connection_url_or_profile",
                violation_error_message=_("A stdio connection needs a launch profile, any other an address."),
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        before = McpConnection.objects.filter(pk=self.pk).first() if self.pk else None
        if problem := self._problem_of_url():
            problems["url"] = problem
        try:
            spec.parse_headers(self.headers, has_literals=True)
            if self.url and not problems:
                self._take_credentials(before)
            spec.parse_headers(self.headers)
        except ValueError as error:
            problems["headers"] = str(error)
        if wrong := vendors.wrong_names(self.extensions):
            problems["extensions"] = _(
                "%(name)s can't be passed. List up to %(most)s names of other vendors' extensions, such as "
                "com.example/search."
            ) % {"name": wrong, "most": vendors.MOST}
        if self.enabled and not problems and (problem := Secret.problem_of(self.secrets())):
            problems["headers" if self.url else "profile"] = problem
        problems |= self._problems_of_account()
        if self.transport == spec.SSE and self.era == spec.STATELESS:
            problems["era"] = _("Stateless revisions don't support HTTP+SSE. Choose another era.")
        if before is not None:
            problems |= self._problems_of_change(before)
        # Also a constraint; but a form that does not show the transport leaves the constraint unchecked.
        is_child = self.transport == spec.STDIO
        if is_child is not bool(self.profile) or is_child is bool(self.url):
            problems["__all__"] = _("A stdio connection needs a launch profile, any other an address.")
        if problems:
            raise ValidationError(problems)

    def save(self, *args: object, **kwargs: Any) -> None:
        if self._state.adding and not self.prefix:
            self.prefix = f"{self.slug}_"
        names = kwargs.get("update_fields")
        with transaction.atomic():
            former = self.prefix
            if not self._state.adding and (names is None or "prefix" in names):
                rows = McpConnection.objects.select_for_update()
                former = rows.values_list("prefix", flat=True).get(pk=self.pk)
            if self._moving is not None:
                self._moving.store()
            super().save(*args, **kwargs)
            if former != self.prefix:
                _renaming().carry_out(self, former)
            if names is None or "workspace" in names:
                self._give_offers()

    def _give_offers(self) -> None:
        """Assign its offers to its workspace."""
        from tools_catalog.models.content import McpPrompt, McpResource
        from tools_catalog.models.definitions import McpToolDefinition
        from tools_catalog.models.offer_kinds import handlers

        kinds: tuple[tuple[Any, str], ...] = (
            (McpToolDefinition, "upstream_tool"),
            (McpPrompt, "upstream_offer"),
            (McpResource, "upstream_offer"),
        )
        core = [model.objects.filter(**{f"{offer}__connection": self}) for model, offer in kinds]
        for rows in (*core, *(handler.rows_of(self) for handler in handlers())):
            for row in rows.exclude(workspace=self.workspace_id):
                row.workspace_id, row.change_reason = self.workspace_id, self.change_reason
                row.save(update_fields=["workspace", "updated_at"])

    def _problem_of_url(self) -> str:
        if not self.url:
            return ""
        try:
            EgressPolicy.from_settings().check_url(self.url)
        except EgressRefused as error:
            return str(error)
        if name := parameter_with_credential(self.url):
            return _("An address can't contain a credential. Enter %(name)s under headers.") % {"name": name}
        return ""

    def _problems_of_change(self, before: McpConnection) -> dict[str, Any]:
        problems: dict[str, Any] = {}
        for field in ("slug", "transport"):
            if getattr(self, field) != getattr(before, field):
                problems[field] = _("This can't be changed. Add another connection.")
        if self.prefix != before.prefix and (taken := _renaming().refusal_of(self, before.prefix)):
            problems["prefix"] = taken
        return problems

    def _problems_of_account(self) -> dict[str, Any]:
        problems = self.problems_of_account(self.headers)
        if self.issuer and (problem := problem_of_address(self.issuer, is_issuer=True)):
            problems["issuer"] = problem
        if self.account != spec.NO_ACCOUNT and self.transport == spec.STDIO:
            problems.setdefault(
                "account", _("A child process can't use an account. Add a secret to its launch profile.")
            )
        if self.account == JAG_ACCOUNT and (self.identity is None or self.identity.account != spec.PERSONAL_ACCOUNT):
            problems.setdefault(
                "identity",
                _("Choose a service at the company's issuer with an account per person and the scope openid."),
            )
        if self.lists_per_person and self.account not in OF_PERSONS:
            problems.setdefault(
                "lists_per_person", _("People can only have accounts here if the account is per person.")
            )
        return problems

    def _take_credentials(self, before: McpConnection | None) -> None:
        self._moving = self._moving or Moving()
        to = Destination(origin_of(self.url), (f"{CONNECTION}:{self.slug}",))
        is_moved = before is not None and origin_of(before.url) != to.origin
        was = before.headers if before is not None else None
        self.headers = self._moving.taken(self.headers, "headers", to, was, is_moved=is_moved)

    @property
    def status(self) -> str:
        """The worst that a process reports of it; `disconnected` where none holds it."""
        if "link_status" in self.__dict__:
            return self.__dict__["link_status"] or LinkState.DISCONNECTED.value
        found = set(self.links.values_list("status", flat=True))
        return next((state.value for state in _WORST_FIRST if state.value in found), LinkState.DISCONNECTED.value)

    @property
    def reconnects(self) -> int:
        """How often processes that run now lost it, or its session, and connected anew."""
        if "link_restarts" in self.__dict__:
            return self.__dict__["link_restarts"] or 0
        return sum(link.restarts for link in self.links.all())

    @property
    def error_message(self) -> str:
        """The last error of a process that cannot connect, also while it tries again; empty where all goes well."""
        failing = sorted((link for link in self.links.all() if link.error_message), key=lambda link: link.updated_at)
        return failing[-1].error_message if failing else ""

    @property
    def lists_differ(self) -> bool:
        """Whether its lists depend on the user."""
        return self.lists_per_person and self.account in OF_PERSONS

    @property
    def has_never_connected(self) -> bool:
        """Whether its offers were never listed."""
        return self.discovered_at is None

    @property
    def profile_name(self) -> str:
        """The name of its launch profile, as bundles write it; empty over HTTP."""
        return self.profile.name if self.profile else ""

    @profile_name.setter
    def profile_name(self, name: str) -> None:
        found = LaunchProfile.objects.filter(name=name).first()
        if found is None:
            raise ValueError(f"profile: there is no launch profile {name!r} here or in the bundle.")
        self.profile = found

    @property
    def connected_at(self) -> datetime | None:
        """Since when the oldest of the connections stands that processes hold now; None where none does."""
        held = [link.connected_at for link in self.links.all() if link.status == LinkState.CONNECTED.value]
        return min((moment for moment in held if moment is not None), default=None)

    @property
    def reconnected_at(self) -> datetime | None:
        """When a process that runs now last lost it, or its session, and connected anew."""
        if "link_reconnected" in self.__dict__:
            found: datetime | None = self.__dict__["link_reconnected"]
            return found
        moments = [link.reconnected_at for link in self.links.all()]
        return max((moment for moment in moments if moment is not None), default=None)

    @property
    def last_used(self) -> datetime | None:
        """When a call last went through it, of all processes that hold or held it since they started."""
        used = [link.last_used_at for link in self.links.all()]
        return max((moment for moment in used if moment is not None), default=None)

    def secrets(self) -> list[tuple[str, Destination]]:
        """Return the secrets that it sends, each with where it goes. Raises ValueError as `spec`."""
        found: list[tuple[str, Destination]] = []

        def note(name: str, to: Destination) -> str:
            found.append((name, to))
            return ""

        connects_by = self.spec()
        if self.url:
            connects_by.rendered_headers(note)
        if connects_by.launch is not None:
            connects_by.launch.rendered_environment(note)
        return found

    def spec(self) -> spec.ConnectionSpec:
        """Return a process's connection settings. Raises ValueError where the stored words cannot be read."""
        made = spec.ConnectionSpec(
            id=self.pk,
            slug=self.slug,
            transport=self.transport,
            url=self.url,
            headers=spec.parse_headers(self.headers),
            account=self.account,
            identity=self._identity(),
            lists_per_person=self.lists_differ,
            launch=self.profile.spec() if self.profile else None,
            starts_eagerly=self.starts_eagerly,
            separates_callers=self.sessions == self.Sessions.AUTO,
            era=self.era,
            declares=vendors.declared_among(self.declares, frozenset(self.extensions)),
            asking=self._asking(),
            connect_seconds=self.connect_seconds,
            idle_seconds=self.idle_seconds,
            refresh_seconds=self.refresh_seconds,
            generated_skills=self.generated_skills,
            max_concurrent=self.max_concurrent,
            max_response_bytes=self.max_response_bytes,
            max_notifications=self.max_notifications,
        )
        reach, _blank, server = self.unprobed.partition(" ")
        made = made.as_first() if self.has_never_connected else made
        return replace(made, unprobed=server) if reach == made.reach else made

    def state(self) -> str:
        """Return a digest of all settings that decide where calls go and as whom."""
        rows = [self, self.profile, self.identity]
        return " ".join("-" if row is None else recording.digest_of(row) for row in rows)

    def _identity(self) -> Identity | None:
        if self.account != JAG_ACCOUNT or self.identity is None:
            return None
        return Identity(id=self.identity.pk, slug=self.identity.slug, url=self.identity.url)

    def _asking(self) -> Asking:
        return Asking(
            connection=self.slug,
            elicits=self.may_ask,
            asks_secrets=self.may_ask_secrets,
            samples=self.may_sample,
            lists_roots=self.may_list_roots,
            extensions=frozenset(self.extensions),
            opens_loopback=not settings.MCPHUB_PUBLIC_URL.startswith("https:"),
        )


def _renaming() -> ModuleType:
    from tools_catalog.models import renaming  # it stands on this module

    return renaming


keep_groups(McpConnection)
