"""Ways to log in besides the password: identity providers, and links of people to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any, ClassVar

from cryptography import x509
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.core.validators import RegexValidator
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app import bus
from sessions_app.history import events
from sessions_app.history.guarding import GuardedModel
from sessions_app.history.recording import RecordedModel
from sessions_app.kit.entered import parts_of
from sessions_app.kit.fields import JSONText
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.protocol.errors import EgressRefused
from tools_catalog import secrets
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.secrets import KeepsOneSecret

MOST_CERTIFICATES = 5
MOST_MAPPED = 500
"""Values of a claim that one provider may map."""
_CLAIM = RegexValidator(r"^[^\s\x00]{1,200}\Z", _("Enter the name of one claim, without spaces."))


class LoginProvider(KeepsOneSecret, GuardedModel):
    """An identity provider (OpenID Connect or SAML 2.0) by which people log in to the hub."""

    HIDDEN = ("ciphertext",)
    GUARDED: ClassVar[Mapping[str, Any]] = {
        "groups": {},
        "admits": "invited",
        "directory_claim": "",
        "asks_second_factor": True,
    }
    JUDGED_BY: ClassVar[tuple[str, ...]] = ("issuer", "certificates", "client_id", "groups_claim")
    """The mapping gives groups by a claim, and what a claim holds is up to the client over there."""

    class Admits(models.TextChoices):
        EVERYBODY = "everybody", _("Everybody with an account there")
        MAPPED = "mapped", _("Members of a group that is mapped below")
        INVITED = "invited", _("Only invited people, and people with a linked account")

    class Kind(models.TextChoices):
        OIDC = "oidc", _("OpenID Connect")
        SAML = "saml", _("SAML 2.0")

    name = models.CharField(
        _("name"), max_length=60, unique=True, help_text=_("Label of the button on the login page.")
    )
    kind = models.CharField(
        _("kind"), max_length=8, choices=Kind, default=Kind.OIDC, help_text=_("Can't be changed later.")
    )
    slug = models.CharField(
        _("short name"),
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9-]*\Z", _("Use lowercase letters, digits and hyphens."))],
        help_text=_("Part of the redirect URI; can't be changed."),
    )
    issuer = models.CharField(
        _("issuer"),
        max_length=300,
        help_text=_(
            "Exactly as the provider writes it, such as https://login.example/realms/staff. For SAML, the entity ID."
        ),
    )
    client_id = models.CharField(
        _("client ID"),
        max_length=300,
        help_text=_("The hub's client ID at the provider. For SAML, the hub's entity ID."),
    )
    login_address = models.CharField(
        _("login address"),
        max_length=500,
        blank=True,
        help_text=_("SAML only: where the provider accepts redirect requests (HTTP-Redirect)."),
    )
    certificates = models.TextField(
        _("certificates"),
        blank=True,
        max_length=40_000,
        help_text=_(
            "SAML only: one or more signing certificates of the provider, in PEM. Enter the next one before "
            "it becomes valid."
        ),
    )
    ciphertext = models.TextField(editable=False, blank=True)
    mask = models.CharField(_("client secret"), max_length=40, editable=False, blank=True)
    scopes = models.CharField(
        _("scopes"),
        max_length=300,
        default="openid profile email",
        help_text=_("The scopes that the hub requests. `openid` is required; some providers need a scope for groups."),
    )
    username_claim = models.CharField(
        _("claim with the name"),
        max_length=200,
        default="preferred_username",
        validators=[_CLAIM],
        help_text=_("Names new accounts. It never matches an existing account."),
    )
    email_claim = models.CharField(
        _("claim with the e-mail address"), max_length=200, default="email", validators=[_CLAIM]
    )
    groups_claim = models.CharField(_("claim with the groups"), max_length=200, default="groups", validators=[_CLAIM])
    groups = JSONText(
        _("groups"),
        default=dict,
        blank=True,
        help_text=_(
            'Claim values and the hub groups that they assign, such as {"mcp-admins": ["Operator"]}. Groups '
            "listed here follow the claim at each login; other groups don't change. A group with console "
            "permissions gives access to the console."
        ),
    )
    admits = models.CharField(_("who can log in"), max_length=10, choices=Admits, default=Admits.INVITED)
    directory_claim = models.CharField(
        _("claim with the id in the directory"),
        max_length=200,
        blank=True,
        validators=[_CLAIM],
        help_text=_(
            "If a directory provisions people by SCIM: the claim that contains its externalId. It leads to "
            "the account that the directory created. Leave blank if people link their accounts or are "
            "invited."
        ),
    )
    asks_second_factor = models.BooleanField(
        _("requires the hub's second factor"), default=False, help_text=_("If off, the provider takes care of that.")
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("login provider")
        verbose_name_plural = _("login providers")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=~Q(issuer=""), name="login_provider_has_issuer"),
            models.CheckConstraint(condition=~Q(client_id=""), name="login_provider_has_client"),
            models.CheckConstraint(
                condition=Q(kind="oidc", login_address="", certificates="")
                | (Q(kind="saml") & ~Q(login_address="") & ~Q(certificates="")),
                name="login_provider_kind_whole",
                violation_error_message=_(
                    "SAML needs a login address and a certificate; OpenID Connect needs neither."
                ),
            ),
            models.CheckConstraint(
                condition=Q(admits__in=["everybody", "mapped", "invited"]), name="login_provider_admits_known"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """A second factor that is asked for is given up by two; one that is not is no matter of a new row."""
        if stored is not None and stored["asks_second_factor"]:
            return self.GUARDED
        return {name: value for name, value in self.GUARDED.items() if name != "asks_second_factor"}

    def clean(self) -> None:
        self.issuer = self.issuer.strip()
        self.scopes = " ".join(dict.fromkeys(self.scopes.split()))
        if self.kind == self.Kind.SAML:
            check_saml(self)
        else:
            self._check_issuer()
        self._check_groups()
        if self.admits == self.Admits.MAPPED and not self.groups:
            raise ValidationError({"groups": _("Map at least one group: otherwise nobody can log in.")})

    def _check_issuer(self) -> None:
        address = parts_of(self.issuer)
        if address.query or address.fragment or "@" in address.netloc:
            raise ValidationError({"issuer": _("Enter only the issuer, without ? # or @.")})
        try:
            EgressPolicy.from_settings().check_url(self.issuer)
        except EgressRefused as error:
            raise ValidationError({"issuer": str(error)}) from error
        if address.scheme != "https" and address.hostname not in ("127.0.0.1", "::1", "localhost"):
            raise ValidationError({"issuer": _("An issuer needs an https address, or one on this machine.")})
        if "openid" not in self.scopes.split():
            raise ValidationError({"scopes": _("Add `openid`: without it the provider doesn't identify the person.")})

    def _check_groups(self) -> None:
        mapping = self.groups
        is_whole = isinstance(mapping, dict) and all(
            isinstance(names, list) and names and all(isinstance(name, str) for name in names)
            for names in mapping.values()
        )
        if not is_whole:
            raise ValidationError({"groups": _('Enter an object of lists, such as {"staff": ["Viewer"]}.')})
        if len(mapping) > MOST_MAPPED:
            raise ValidationError({"groups": _("Map at most %(count)d values.") % {"count": MOST_MAPPED}})
        known = set(Group.objects.filter(name__in=self.governed).values_list("name", flat=True))
        if missing := sorted(self.governed - known):
            words = _("No group named %(names)s. Create it first.") % {"names": ", ".join(missing)[:200]}
            raise ValidationError({"groups": words})

    @property
    def governed(self) -> set[str]:
        """The names of the groups that follow the claim."""
        return {name for names in self.groups.values() for name in names}

    def groups_for(self, values: Iterable[str]) -> set[str]:
        """Return the names of the groups that these values of the claim give."""
        return {name for value in values for name in self.groups.get(value, ())}

    @property
    def _binding(self) -> str:
        return f"login.LoginProvider:{self.slug}:secret"


def check_saml(provider: LoginProvider) -> None:
    """Raise ValidationError, by field, where logins by SAML could not work."""
    if find_spec("onelogin") is None:
        raise ValidationError({"kind": _("SAML is an optional extra: install `mcphub[saml]` and restart the hub.")})
    address = parts_of(provider.login_address)
    is_near = address.hostname in ("127.0.0.1", "::1", "localhost")
    if not address.hostname or address.scheme not in (("https", "http") if is_near else ("https",)):
        raise ValidationError({"login_address": _("Enter an https address, or one on this machine.")})
    try:
        found = x509.load_pem_x509_certificates(provider.certificates.encode())
    except ValueError as error:
        raise ValidationError(
            {"certificates": _("Enter certificates in PEM, including the BEGIN and END lines.")}
        ) from error
    if len(found) > MOST_CERTIFICATES:
        raise ValidationError({"certificates": _("Enter at most %(count)d.") % {"count": MOST_CERTIFICATES}})


class LinkedIdentity(models.Model):
    """A person is known to an issuer under a subject, for logins at a provider and tokens of a trusted issuer alike.

    Found by issuer and subject, never by an e-mail address.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="linked_identities", verbose_name=_("person")
    )
    issuer = models.CharField(_("issuer"), max_length=500)
    subject = models.CharField(_("subject"), max_length=255)
    issuer_name = models.CharField(_("known as"), max_length=60)
    """The issuer's name at the time of the link."""
    by_name = models.BooleanField(_("matched by name only"), default=False)
    """Whether a token's name led to the account. Such a link opens no console: people may choose their names."""
    last_nonce = models.CharField(max_length=64, blank=True, editable=False)
    """The digest of the nonce of the last login: one state is redeemed once."""
    linked_at = models.DateTimeField(_("linked"), default=timezone.now)
    last_login_at = models.DateTimeField(_("last login"), null=True, blank=True)

    class Meta:
        verbose_name = _("linked identity")
        verbose_name_plural = _("linked identities")
        default_permissions = ("view", "change", "delete")
        ordering = ["-linked_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["issuer", "subject"], name="login_identity_once"),
            models.UniqueConstraint(
                fields=["issuer", "user"], condition=Q(by_name=True), name="login_identity_one_by_name"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} · {self.issuer_name}"

    @classmethod
    def make(
        cls, user: Any, issuer: str, subject: str, issuer_name: str, *, by_name: bool = False, by: Any = None
    ) -> LinkedIdentity:
        """Link an account, on record. Raises IntegrityError where the subject is linked, or by a name the account."""
        made = cls.objects.create(user=user, issuer=issuer, subject=subject, issuer_name=issuer_name, by_name=by_name)
        made._record("identity.linked", by=by)
        return made

    def confirm(self, *, by: Any = None, reason: str = "") -> None:
        """Let the person log in, too, though a token's name alone led to the account."""
        with transaction.atomic():
            self.by_name = False
            self.save(update_fields=["by_name"])
            self._record("identity.confirmed", by=by, reason=reason)

    def unlink(self, *, by: Any = None, reason: str = "") -> None:
        """Take the link away, on record. The person's open client sessions end; their logins stay."""
        with transaction.atomic():
            self._record("identity.unlinked", by=by, reason=reason)
            bus.publish(bus.CALLER_ENDED, f"user:{self.user_id}")
            self.delete()

    def _record(self, kind: str, *, by: Any = None, reason: str = "") -> None:
        said = {"issuer": self.issuer, "subject": self.subject, "known_as": self.issuer_name, "by_name": self.by_name}
        events.record(
            kind,
            actor=events.actor_of(by) if by is not None else None,
            model=get_user_model(),
            subject=self.user_id,
            label=str(self.user),
            before=said if kind == "identity.unlinked" else None,
            after=None if kind == "identity.unlinked" else said,
            reason=reason,
        )


class SecondFactor(RecordedModel):
    """A person's factor besides the password: an app that creates codes, a passkey, or codes on paper."""

    RECORDED_AS = "second_factor"
    HIDDEN = ("ciphertext", "credential")
    UNRECORDED = ("used_at", "last_step", "last_challenge")

    class Kind(models.TextChoices):
        APP = "app", _("Authenticator app")
        PASSKEY = "passkey", _("Passkey")
        CODES = "codes", _("Recovery codes")

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="second_factors", verbose_name=_("person")
    )
    kind = models.CharField(_("kind"), max_length=8, choices=Kind)
    name = models.CharField(_("name"), max_length=60, blank=True)
    ciphertext = models.TextField(editable=False)
    """The app's secret in base32, the passkey's credential data in base64, or the digests of the codes as JSON."""
    credential = models.CharField(max_length=64, blank=True, editable=False)
    """The digest of a passkey's id."""
    last_step = models.BigIntegerField(default=0, editable=False)
    """The time step of the last code, or a passkey's counter: neither comes again."""
    last_challenge = models.CharField(max_length=64, blank=True, editable=False)
    made_at = models.DateTimeField(_("created"), default=timezone.now)
    used_at = models.DateTimeField(_("last used"), null=True, blank=True)

    class Meta:
        verbose_name = _("second factor")
        verbose_name_plural = _("second factors")
        default_permissions = ("view", "delete")
        permissions = [("needs_secondfactor", _("Must log in with a second factor"))]
        ordering = [f"user__{PEOPLE.name}", "kind", "pk"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "kind"], condition=~Q(kind="passkey"), name="login_second_factor_once"
            ),
            models.UniqueConstraint(
                fields=["credential"], condition=~Q(credential=""), name="login_second_factor_credential_once"
            ),
            models.CheckConstraint(
                condition=Q(kind__in=["app", "passkey", "codes"]), name="login_second_factor_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} · {self.get_kind_display()}"

    def set_content(self, plain: str) -> None:
        """Encrypt the factor's verification secret, under its person and kind; call save() afterwards."""
        self.ciphertext = secrets.encrypt(plain, aad=self._binding)

    def encrypt_anew(self) -> list[str]:
        if secrets.is_current(self.ciphertext):
            return []
        self.set_content(self.content())
        return ["ciphertext"]

    def content(self) -> str:
        """Raises SecretError."""
        return secrets.decrypt(self.ciphertext, aad=self._binding)

    def note_use(self, **noted: Any) -> None:
        for name, value in {**noted, "used_at": timezone.now()}.items():
            setattr(self, name, value)
        self.save_unrecorded(update_fields=[*noted, "used_at"])

    @property
    def _binding(self) -> str:
        return f"login.SecondFactor:{self.user_id}:{self.kind}:{self.credential}"


class Invitation(RecordedModel):
    """A link by which one person makes an account that an operator described. The row keeps the link's digest."""

    HIDDEN = ("digest",)

    digest = models.CharField(max_length=64, unique=True, editable=False)
    username = models.CharField(_("name"), max_length=150, validators=[UnicodeUsernameValidator()])
    email = models.EmailField(_("e-mail address"), blank=True)
    groups = JSONText(_("groups"), default=list, blank=True)
    made_at = models.DateTimeField(_("created"), default=timezone.now)
    expires_at = models.DateTimeField(_("expires"))
    used_at = models.DateTimeField(_("used"), null=True, blank=True)

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        default_permissions = ("view", "add", "delete")
        ordering = ["-made_at", "-pk"]

    def __str__(self) -> str:
        return self.username

    @property
    def is_open(self) -> bool:
        return self.used_at is None and self.expires_at > timezone.now()
