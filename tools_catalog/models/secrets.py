"""Secrets as rows: credentials that the hub sends, each bound to origins, places and users."""

from __future__ import annotations

from collections.abc import Iterable

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.history.recording import RecordedModel
from tools_catalog import bindings, secrets


class Secret(RecordedModel):
    """A credential that the hub sends. Write-only: encrypted at rest, shown by its last characters only."""

    RECORDED_AS = "secret"
    HIDDEN = ("ciphertext",)

    name = models.CharField(
        _("name"),
        max_length=64,
        unique=True,
        validators=[RegexValidator(r"^[A-Za-z0-9_.-]+\Z")],
        help_text=_("Used in a tool's headers as {secret:NAME}."),
    )
    origins = models.TextField(
        _("origins"),
        validators=[bindings.check_origins],
        help_text=_(
            "The secret is sent only to these: https://api.example.org https://api.example.org:8443 "
            "*.example.net. Without a scheme, https. NAME.stdio is the launch profile NAME."
        ),
    )
    places = models.TextField(
        _("locations"),
        default=bindings.DEFAULT_PLACES,
        validators=[bindings.check_places],
        help_text=_(
            "Where in a request it can appear: headers.NAME, query.NAME, environment.NAME (* for any name), or body."
        ),
    )
    users = models.TextField(
        _("approved for"),
        blank=True,
        validators=[bindings.check_users],
        help_text=_(
            "Permitted senders: service:NAME (with its tools), connection:NAME, tool:NAME. Launch profiles "
            "are approved by their origin."
        ),
    )
    ciphertext = models.TextField(editable=False)
    mask = models.CharField(_("value"), max_length=40, editable=False)
    fingerprint = models.CharField(_("fingerprint"), max_length=64, editable=False)
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("secret")
        verbose_name_plural = _("secrets")
        ordering = ["name"]
        constraints = [models.CheckConstraint(condition=~Q(origins=""), name="secret_origins_present")]

    def __str__(self) -> str:
        return self.name

    def set_value(self, plain: str) -> None:
        """Encrypt `plain` under this row's name; call save() afterwards."""
        self.ciphertext = secrets.encrypt(plain, aad=f"tools_catalog.Secret:{self.name}:value")
        self.mask = secrets.mask(plain)
        self.fingerprint = secrets.fingerprint(plain)

    def encrypt_anew(self) -> list[str]:
        if secrets.is_current(self.ciphertext):
            return []
        self.set_value(self.value())
        return ["ciphertext", "fingerprint"]

    def value(self) -> str:
        return secrets.decrypt(self.ciphertext, aad=f"tools_catalog.Secret:{self.name}:value")

    @classmethod
    def problem_of(cls, needed: Iterable[tuple[str, bindings.Destination]]) -> str:
        """Return the reason if one of these must not be sent; empty if all may, or do not exist yet."""
        wanted = list(needed)
        if not wanted:
            return ""
        known = {row.name: row for row in cls.objects.filter(name__in={name for name, _to in wanted})}
        for name, to in wanted:
            missing = bindings.unbound(known[name], to) if name in known else None
            if missing is not None:
                return _t(
                    "The secret %(name)s is not approved for %(word)s. Use another secret, remove it, or "
                    "have somebody who can edit secrets add it to %(field)s first."
                ) % {"name": name, "word": missing.word, "field": _FIELDS[missing.field]}
        return ""


_FIELDS = {"origins": _("origins"), "places": _("locations"), "users": _("approved for")}
