"""Issuers that an operator trusts."""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from mcphub.features.login.models import LinkedIdentity
from mcphub.features.signin.issuers import documents
from mcphub.features.signin.issuers.trust import ALGORITHMS, Trust
from sessions_app import bus, endpoints
from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.errors import EgressRefused
from sessions_app.protocol.json import Json
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.secrets import KeepsOneSecret

_MOST_ENTRIES = 200


def default_algorithms() -> list[str]:
    return ["RS256", "PS256", "ES256", "EdDSA"]


class Issuer(KeepsOneSecret, GuardedModel):
    """An authorization server of others, and how its tokens become callers."""

    RECORDED_AS = "issuer"
    HIDDEN = ("ciphertext",)
    GUARDED: ClassVar[dict[str, Any]] = {"enabled": False}
    JUDGED_BY = (
        "issuer",
        "method",
        "keys_address",
        "question_address",
        "client_id",
        "algorithms",
        "audiences",
        "person_claim",
        "makes_people",
        "groups_claim",
        "groups",
        "scope_claim",
        "scopes",
        "scopes_always",
        "takes_assertions",
    )

    class Method(models.TextChoices):
        SIGNED = "signed", _("By its keys (JWT)")
        ASKED = "asked", _("By introspection")

    name = models.CharField(
        _("name"), max_length=40, unique=True, validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z")]
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=500,
        unique=True,
        help_text=_("Exactly as its tokens and its metadata write it, such as https://login.example/realms/work."),
    )
    enabled = models.BooleanField(_("enabled"), default=False, help_text=_("If off, its tokens give no access."))
    announced = models.BooleanField(
        _("advertised to clients"),
        default=False,
        help_text=_(
            "Listed in the hub's metadata next to the hub itself. Clients often use the first issuer that they support."
        ),
    )
    method = models.CharField(_("token validation"), max_length=8, choices=Method, default=Method.SIGNED)
    keys_address = models.CharField(
        _("JWKS URL"), max_length=500, blank=True, help_text=_("Leave blank to use the issuer's metadata (jwks_uri).")
    )
    algorithms = JSONText(
        _("algorithms"), default=default_algorithms, help_text=_("Asymmetric signatures, such as RS256, ES256.")
    )
    question_address = models.CharField(
        _("introspection URL"), max_length=500, blank=True, help_text=_("Leave blank to use the issuer's metadata.")
    )
    client_id = models.CharField(
        _("client ID"), max_length=200, blank=True, help_text=_("The credentials that the hub uses for introspection.")
    )
    ciphertext = models.TextField(editable=False, blank=True)
    mask = models.CharField(_("client secret"), max_length=40, editable=False, blank=True)
    audiences = JSONText(
        _("audiences"),
        default=dict,
        blank=True,
        help_text=_(
            'Audience -> endpoint, such as {"api://mcp-hub": "/mcp"}, for issuers that can\'t name the '
            "hub's endpoints by URL. The URLs themselves are always accepted."
        ),
    )
    person_claim = models.CharField(
        _("claim with the account name"),
        max_length=100,
        blank=True,
        default="preferred_username",
        help_text=_(
            "Matches a person at the first login. After that, only the subject counts. Leave blank to accept "
            "only linked people."
        ),
    )
    makes_people = models.BooleanField(
        _("creates accounts"),
        default=False,
        help_text=_("Unknown people get an account without permissions or password."),
    )
    groups_claim = models.CharField(_("claim with groups"), max_length=100, blank=True)
    groups = JSONText(
        _("groups"),
        default=dict,
        blank=True,
        help_text=_(
            'Claim value -> hub group, such as {"developers": "Developers"}. The token then shows the tools '
            "of these groups in addition to the person's own. It never gives console permissions."
        ),
    )
    scope_claim = models.CharField(_("claim with scopes"), max_length=100, default="scope")
    scopes = JSONText(
        _("scopes"),
        default=dict,
        blank=True,
        help_text=_('Scope of the issuer -> scopes of the hub, such as {"mcp.use": ["tools:call"]}.'),
    )
    scopes_always = JSONText(
        _("scopes for every token"),
        default=list,
        blank=True,
        help_text=_('For issuers without scopes, such as ["tools:call"].'),
    )
    takes_assertions = models.BooleanField(
        _("vouches for people"),
        default=False,
        help_text=_("Enterprise-managed authorization: the hub issues tokens for its identity assertions (ID-JAG)."),
    )
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("trusted issuer")
        verbose_name_plural = _("trusted issuers")
        ordering = ["name"]
        permissions = [("test_issuer", _("Can test a trusted issuer"))]
        constraints = [
            models.CheckConstraint(condition=~Q(issuer=""), name="signin_issuer_named"),
            models.CheckConstraint(condition=Q(method__in=["signed", "asked"]), name="signin_issuer_method_known"),
            models.UniqueConstraint(
                fields=["method"],
                condition=Q(method="asked", enabled=True),
                name="signin_one_issuer_asked",
                violation_error_message=_(
                    "Another enabled issuer already uses introspection. A token without an issuer is sent to only one."
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems = self._problems_of_addresses() | self._problems_of_maps()
        if not _is_list(self.algorithms, ALGORITHMS) or not self.algorithms:
            problems["algorithms"] = _t("Enter a list of: %(known)s.") % {"known": ", ".join(ALGORITHMS)}
        if not _is_list(self.scopes_always, endpoints.SCOPES):
            problems["scopes_always"] = _scope_words()
        if self.method == self.Method.ASKED and not (self.client_id and self.ciphertext):
            problems["client_id"] = _t("Introspection needs a client ID and a secret of the hub at the issuer.")
        if problems:
            raise ValidationError(problems)

    def _problems_of_addresses(self) -> dict[str, str]:
        problems: dict[str, str] = {}
        if not documents.is_address(self.issuer) or "?" in self.issuer:
            problems["issuer"] = _t("Enter an https URL without ? and #, or http on this machine.")
        elif self.issuer == endpoints.issuer():
            problems["issuer"] = _t("This is the hub itself; its own tokens need no row.")
        for column in ("issuer", "keys_address", "question_address"):
            value = getattr(self, column)
            if not value or column in problems:
                continue
            if not documents.is_address(value):
                problems[column] = _t("Enter an https URL, or http on this machine.")
                continue
            try:
                EgressPolicy.from_settings().check_url(value)
            except EgressRefused as error:
                problems[column] = str(error)
        return problems

    def _problems_of_maps(self) -> dict[str, str]:
        problems: dict[str, str] = {}
        if not _is_map(self.audiences) or not all(
            isinstance(each, str) and each and endpoints.of_path(each) == each for each in self.audiences.values()
        ):
            problems["audiences"] = _t("Enter an object of this hub's endpoints by audience, such as /mcp.")
        if not _is_map(self.scopes) or not all(_is_list(each, endpoints.SCOPES) for each in self.scopes.values()):
            problems["scopes"] = _scope_words()
        if not _is_map(self.groups) or not all(isinstance(each, str) for each in self.groups.values()):
            problems["groups"] = _t("Enter an object of this hub's groups by claim value.")
        else:
            unknown = set(self.groups.values()) - set(Group.objects.values_list("name", flat=True))
            if unknown:
                problems["groups"] = _t("No group named %(name)s.") % {"name": sorted(unknown)[0][:80]}
        return problems

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic():
            was = Issuer.objects.filter(pk=self.pk, enabled=True).exists() if self.pk else False
            super().save(*args, **kwargs)
            if was and not self.enabled:
                self._end_callers()

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        with transaction.atomic():
            self._end_callers()
            return super().delete(*args, **kwargs)

    def _end_callers(self) -> None:
        for user_id in LinkedIdentity.objects.filter(issuer=self.issuer).values_list("user_id", flat=True):
            bus.publish(bus.CALLER_ENDED, f"user:{user_id}")

    @property
    def _binding(self) -> str:
        return f"signin.Issuer:{self.name}:secret"

    def trust(self) -> Trust:
        """Return the row in the form for judging tokens. Raises SecretError."""
        ids = dict(Group.objects.filter(name__in=self.groups.values()).values_list("name", "pk"))
        return Trust(
            pk=self.pk,
            name=self.name,
            issuer=self.issuer,
            algorithms=frozenset(self.algorithms),
            is_asked=self.method == self.Method.ASKED,
            keys_address=self.keys_address,
            question_address=self.question_address,
            client_id=self.client_id,
            secret=self.secret(),
            audiences=self.audiences,
            person_claim=self.person_claim,
            makes_people=self.makes_people,
            groups_claim=self.groups_claim,
            groups={value: (ids[name],) for value, name in self.groups.items() if name in ids},
            scope_claim=self.scope_claim,
            scopes={name: tuple(own) for name, own in self.scopes.items()},
            scopes_always=tuple(self.scopes_always),
        )


def _is_list(value: Json, known: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) and each in known for each in value)


def _is_map(value: Json) -> bool:
    return isinstance(value, dict) and len(value) <= _MOST_ENTRIES and all(value)


def _scope_words() -> str:
    return _t("Use these scopes: %(known)s.") % {"known": ", ".join(endpoints.SCOPES)}
