"""Services: HTTP APIs that several tools call, each with its address, its credentials, its kind and version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.history import recording
from sessions_app.kit.fields import JSONText, readable_rows
from sessions_app.protocol.errors import EgressRefused
from sessions_app.protocol.json import Json
from tools_catalog.backends.http.configuration import HttpConfiguration, Service, parse_service
from tools_catalog.bindings import SERVICE, Destination, origin_of
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.models.content import Switchable
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.models.moving import Moving
from tools_catalog.models.places import BY_WORD_GUARDED, AccountPlaceModel, problem_of_address
from tools_catalog.models.secrets import Secret
from tools_catalog.models.short_names import SHORT_NAME, check_short_name
from tools_catalog.upstream.account import JAG_ACCOUNT, UNATTENDED
from tools_catalog.upstream.spec import ACCOUNTS, NO_ACCOUNT


class HttpService(AccountPlaceModel, LoadableModel):
    """One API. Its tools name it, with a path instead of a whole address."""

    of = "service"
    sends_resource = False
    """Issuers of APIs mostly refuse the parameter `resource`."""
    OF_ACCOUNT: ClassVar[dict[str, Any]] = {**BY_WORD_GUARDED, "issuer": "", "authorization_url": "", "token_url": ""}
    GUARDED: ClassVar[dict[str, Any]] = OF_ACCOUNT
    WHERE = ("url",)
    BOUND = ("url", "headers", "enabled", *(name for name in OF_ACCOUNT if name not in ("url", "headers")))
    """Guardrails may ask it, by its address and with its credentials."""

    slug = models.CharField(
        _("name"),
        max_length=32,
        unique=True,
        validators=[check_short_name],
        help_text=_('Permanent: tools refer to it, as {"service": NAME, "url": "/path"}.'),
    )
    title = models.CharField(_("title"), max_length=200, blank=True)
    url = models.CharField(
        _("address"), max_length=2000, help_text=_("The base URL of every tool, without credentials.")
    )
    headers = JSONText(
        _("headers"),
        default=dict,
        blank=True,
        help_text=_(
            'Sent with each request: {"Authorization": "Bearer {secret:NAME}"}, or "Basic {basic:NAME}" with a '
            "secret of the form user:password."
        ),
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=500,
        blank=True,
        help_text=_(
            "The issuer of the accounts. The hub reads all addresses from its metadata (OAuth, OpenID Connect)."
        ),
    )
    authorization_url = models.CharField(
        _("authorization address"),
        max_length=2000,
        blank=True,
        help_text=_("For an issuer without metadata: where people sign in."),
    )
    token_url = models.CharField(
        _("token address"),
        max_length=2000,
        blank=True,
        help_text=_("For an issuer without metadata: where the hub gets tokens."),
    )
    kind = models.CharField(
        _("server type"),
        max_length=50,
        blank=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9._-]*\Z", _("Use a-z 0-9 . _ -"))],
        help_text=_("Compared with the requirements of its tools, such as bitbucket-datacenter."),
    )
    version = models.CharField(
        _("server version"),
        max_length=50,
        blank=True,
        validators=[
            RegexValidator(r"^[0-9]+(\.[0-9]+)*\Z", _("Enter numbers separated by full stops, such as 8.19.2."))
        ],
        help_text=_("Tools that require another version are not available."),
    )
    enabled = models.BooleanField(_("enabled"), default=True, help_text=_("If off, none of its tools is available."))
    created_at = models.DateTimeField(_("registered"), default=timezone.now, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    objects = Switchable.as_manager()

    _moving: Moving | None = None

    class Meta:
        verbose_name = _("service")
        verbose_name_plural = _("services")
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(slug__regex=SHORT_NAME.pattern), name="service_slug_wellformed"),
            models.CheckConstraint(condition=~Q(url=""), name="service_url_present"),
            models.CheckConstraint(condition=Q(account__in=ACCOUNTS), name="service_account_known"),
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        problems: dict[str, Any] = {}
        before = HttpService.objects.filter(pk=self.pk).only("slug", "url", "headers").first() if self.pk else None
        try:
            parse_service(self.url, self.headers)
            self._moving = self._moving or Moving()
            to = Destination(origin_of(self.url), (f"{SERVICE}:{self.slug}",))
            was, is_moved = (before.headers, origin_of(before.url) != to.origin) if before else (None, False)
            self.headers = self._moving.taken(self.headers, "headers", to, was, is_moved=is_moved)
            EgressPolicy.from_settings().check_url(self.url)
            if self.enabled and (problem := Secret.problem_of(self.plain().secrets())):
                problems["headers"] = problem
        except EgressRefused as error:
            problems["url"] = str(error)
        except ValueError as error:
            problems["headers" if str(error).startswith("headers") else "url"] = str(error)
        for name, problem in {**self.problems_of_account(self.headers), **self.problems_of_issuer()}.items():
            problems.setdefault(name, problem)
        if before is not None and before.slug != self.slug:
            problems["slug"] = _("This can't be changed. Add another service.")
        if problems:
            raise ValidationError(problems)

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic():
            if self._moving is not None:
                self._moving.store()
            super().save(*args, **kwargs)

    @classmethod
    def enabled_ones(cls) -> dict[str, Service]:
        """Return the services that are switched on, by name; one that cannot be read is left out."""
        return {row.slug: row.plain() for row in readable_rows(cls.objects.filter(enabled=True))}

    def plain(self) -> Service:
        return Service(
            slug=self.slug,
            url=self.url,
            headers=self.headers,
            kind=self.kind,
            version=self.version,
            id=self.pk or 0,
            account=self.account,
            state=recording.digest_of(self) if self.pk else "",
        )

    def problems_of_issuer(self) -> dict[str, Any]:
        """Return the problems of its account issuer, by field."""
        problems: dict[str, Any] = {}
        addresses = {name: getattr(self, name) for name in ("issuer", "authorization_url", "token_url")}
        for name, address in addresses.items():
            if address and (problem := problem_of_address(address, is_issuer=name == "issuer")):
                problems[name] = problem
        if self.issuer and (self.authorization_url or self.token_url):
            problems["issuer"] = _("Enter the issuer, or the addresses of an issuer without metadata, not both.")
        if self.account == NO_ACCOUNT:
            return problems
        if self.account == JAG_ACCOUNT:
            problems["account"] = _("Only connections support accounts through the company's issuer.")
        if not self.issuer and not self.token_url:
            problems["issuer"] = _("An account needs its issuer, or the token address of an issuer without metadata.")
        if self.token_url and not self.client_id:
            problems["client_id"] = _("An issuer without metadata can't register clients. Enter the client ID.")
        if self.token_url and not self.authorization_url and self.account not in UNATTENDED:
            problems["authorization_url"] = _("Enter the address where people sign in.")
        return problems


_proposed: ContextVar[HttpService | None] = ContextVar("proposed service", default=None)


@contextmanager
def proposed(row: HttpService) -> Iterator[None]:
    """Within the block, check tools against this service as if it were saved as it is."""
    before = _proposed.set(row)
    try:
        yield
    finally:
        _proposed.reset(before)


def parsed(configuration: Json) -> HttpConfiguration:
    """Read the configuration of an HTTP tool together with the service that it names; raises ValueError."""
    named = configuration.get("service") if isinstance(configuration, dict) else None
    row = _proposed.get()
    if row is None or row.slug != named:
        row = HttpService.objects.filter(slug=str(named)).first() if named is not None else None
    return HttpConfiguration.parse(configuration, row.plain() if row else None)


class ImportedOperation(models.Model):
    """One operation of a service's description that became a tool, and its imported form."""

    service = models.ForeignKey(HttpService, models.PROTECT, related_name="operations", verbose_name=_("service"))
    key = models.CharField(_("operation"), max_length=500)
    tool = models.OneToOneField(
        "tools_catalog.McpToolDefinition",
        models.SET_NULL,
        null=True,
        blank=True,
        related_name="operation",
        verbose_name=_("tool"),
    )
    imported = JSONText(_("as it was imported"), default=dict)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("imported operation")
        verbose_name_plural = _("imported operations")
        ordering = ["service", "key"]
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["service", "key"], name="operation_once")]

    def __str__(self) -> str:
        return self.key[:100]
