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

from mcphub.login.models import LinkedIdentity
from mcphub.signin.issuers import documents
from mcphub.signin.issuers.trust import ALGORITHMS, Trust
from sessions_app import bus, endpoints
from sessions_app.history.guarding import GuardedModel
from sessions_app.kit.fields import JSONText
from sessions_app.protocol.errors import EgressRefused
from sessions_app.protocol.json import Json
from tools_catalog import secrets
from tools_catalog.egress.rules import EgressPolicy

_MOST_ENTRIES = 200


def default_algorithms() -> list[str]:
    return ["RS256", "PS256", "ES256", "EdDSA"]


class Issuer(GuardedModel):
    """An authorization server of others, and how its tokens become callers."""

    RECORDED_AS = "issuer"
    HIDDEN = ("ciphertext",)
    GUARDED: ClassVar[dict[str, Any]] = {"enabled": False}
    JUDGED_BY = (
        "issuer",
        "method",
        "keys_address",
        "question_address",
        "algorithms",
        "audiences",
        "person_claim",
        "makes_people",
        "groups_claim",
        "groups",
        "scopes",
        "scopes_always",
        "takes_assertions",
    )

    class Method(models.TextChoices):
        SIGNED = "signed", _("By its keys (JWT)")
        ASKED = "asked", _("By asking it (introspection)")

    name = models.CharField(
        _("name"), max_length=40, unique=True, validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z")]
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=500,
        unique=True,
        help_text=_(
            "Letter by letter as its tokens and its document name it, such as https://login.example/realms/work."
        ),
    )
    enabled = models.BooleanField(_("enabled"), default=False, help_text=_("Off: its tokens open nothing."))
    announced = models.BooleanField(
        _("named to clients"),
        default=False,
        help_text=_(
            "The hub's documents name it beside the hub itself. Clients often take the first one they can use."
        ),
    )
    method = models.CharField(_("tokens are judged"), max_length=8, choices=Method, default=Method.SIGNED)
    keys_address = models.CharField(
        _("address of its keys"), max_length=500, blank=True, help_text=_("Empty: as its own document says (jwks_uri).")
    )
    algorithms = JSONText(
        _("algorithms"), default=default_algorithms, help_text=_("Signatures with a public key, such as RS256, ES256.")
    )
    question_address = models.CharField(
        _("address of introspection"), max_length=500, blank=True, help_text=_("Empty: as its own document says.")
    )
    client_id = models.CharField(
        _("client id"), max_length=200, blank=True, help_text=_("With which the hub asks what a token is worth.")
    )
    ciphertext = models.TextField(editable=False, blank=True)
    mask = models.CharField(_("client secret"), max_length=40, editable=False, blank=True)
    audiences = JSONText(
        _("audiences"),
        default=dict,
        blank=True,
        help_text=_(
            'Audience -> endpoint, such as {"api://mcp-hub": "/mcp"}, for issuers that cannot name endpoints of the '
            "hub by their addresses. The addresses themselves are always accepted."
        ),
    )
    person_claim = models.CharField(
        _("claim with the name of the account"),
        max_length=100,
        blank=True,
        default="preferred_username",
        help_text=_(
            "By which somebody is found who comes for the first time. From then on the subject alone decides. "
            "Empty: only those come in who are linked already."
        ),
    )
    makes_people = models.BooleanField(
        _("makes accounts"),
        default=False,
        help_text=_("Whoever is unknown gets an account without rights or password."),
    )
    groups_claim = models.CharField(_("claim with groups"), max_length=100, blank=True)
    groups = JSONText(
        _("groups"),
        default=dict,
        blank=True,
        help_text=_(
            'Value of the claim -> group of the hub, such as {"developers": "Developers"}. The token then shows the '
            "tools of these groups besides those of the person's own. Rights in the console it never gives."
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
        _("scopes of every token"),
        default=list,
        blank=True,
        help_text=_('For issuers without scopes, such as ["tools:call"].'),
    )
    takes_assertions = models.BooleanField(
        _("vouches for people"),
        default=False,
        help_text=_("Enterprise-managed authorization: the hub gives tokens for its identity assertions (ID-JAG)."),
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
                    "Another enabled issuer is asked already. A token that names no issuer is shown to one alone."
                ),
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        problems: dict[str, str] = {}
        if not documents.is_address(self.issuer) or "?" in self.issuer:
            problems["issuer"] = _t("Write an https address without ? and #, or http on this machine.")
        elif self.issuer == endpoints.issuer():
            problems["issuer"] = _t("This is the hub itself; its own tokens need no row.")
        for column in ("issuer", "keys_address", "question_address"):
            value = getattr(self, column)
            if not value or column in problems:
                continue
            if not documents.is_address(value):
                problems[column] = _t("Write an https address, or http on this machine.")
                continue
            try:
                EgressPolicy.from_settings().check_url(value)
            except EgressRefused as error:
                problems[column] = str(error)
        if not _is_list(self.algorithms, ALGORITHMS) or not self.algorithms:
            problems["algorithms"] = _t("Write a list of some of these: %(known)s.") % {"known": ", ".join(ALGORITHMS)}
        if not _is_list(self.scopes_always, endpoints.SCOPES):
            problems["scopes_always"] = _scope_words()
        if not _is_map(self.audiences) or not all(
            isinstance(each, str) and each and endpoints.of_path(each) == each for each in self.audiences.values()
        ):
            problems["audiences"] = _t("Write an object of endpoints of this hub by audience, such as /mcp.")
        if not _is_map(self.scopes) or not all(_is_list(each, endpoints.SCOPES) for each in self.scopes.values()):
            problems["scopes"] = _scope_words()
        if not _is_map(self.groups) or not all(isinstance(each, str) for each in self.groups.values()):
            problems["groups"] = _t("Write an object of groups of this hub by value of the claim.")
        else:
            unknown = set(self.groups.values()) - set(Group.objects.values_list("name", flat=True))
            if unknown:
                problems["groups"] = _t("There is no group %(name)s.") % {"name": sorted(unknown)[0][:80]}
        if self.method == self.Method.ASKED and not (self.client_id and self.ciphertext):
            problems["client_id"] = _t("To ask the issuer the hub needs a client id and a secret there.")
        if problems:
            raise ValidationError(problems)

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

    def set_secret(self, plain: str) -> None:
        """Encrypt the hub's secret at the issuer under this row's name; call save() afterwards. Empty: no secret."""
        self.ciphertext = secrets.encrypt(plain, aad=self._binding) if plain else ""
        self.mask = secrets.mask(plain) if plain else ""

    def encrypt_anew(self) -> list[str]:
        if not self.ciphertext or secrets.is_current(self.ciphertext):
            return []
        self.set_secret(secrets.decrypt(self.ciphertext, aad=self._binding))
        return ["ciphertext"]

    @property
    def _binding(self) -> str:
        return f"signin.Issuer:{self.name}:secret"

    def trust(self) -> Trust:
        """Give what the row says, in the form that tokens are judged by. Raises SecretError."""
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
            secret=secrets.decrypt(self.ciphertext, aad=self._binding) if self.ciphertext else "",
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
    return _t("Use the scopes of the hub: %(known)s.") % {"known": ", ".join(endpoints.SCOPES)}
