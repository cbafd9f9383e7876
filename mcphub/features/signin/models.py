"""The authorizations that people gave to clients. Clients, codes and tokens are rows of django-oauth-toolkit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db import models, transaction
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken

from mcphub.features.signin.issuers.models import Issuer
from sessions_app import bus, endpoints
from sessions_app.history import events

__all__ = ["Consent", "ConsentQuerySet", "Issuer"]


class ConsentQuerySet(models.QuerySet["Consent"]):
    def covering(self, user: Any, client: Application, endpoint: str, scopes: Iterable[str]) -> bool:
        """Return whether the person has allowed the client all of it, at this endpoint."""
        found = self.filter(user=user, client=client, endpoint=endpoint).first()
        return found is not None and set(scopes) <= set(found.scopes.split())

    def revoke(self, *, by: Any = None, reason: str = "") -> int:
        """Take consents back, with the tokens that they gave, on record; give the count."""
        count = 0
        for consent in self.select_related("user", "client"):
            consent.revoke(by=by, reason=reason)
            count += 1
        return count


class Consent(models.Model):
    """A person lets a client use one endpoint in their name. It is asked for once, and ends when it is taken back."""

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="consents", verbose_name=_("person")
    )
    client = models.ForeignKey(Application, models.CASCADE, related_name="consents", verbose_name=_("client"))
    endpoint = models.CharField(_("endpoint"), max_length=200)
    scopes = models.CharField(_("scopes"), max_length=200)
    given_at = models.DateTimeField(_("granted"), default=timezone.now)

    objects = ConsentQuerySet.as_manager()

    class Meta:
        verbose_name = _("authorized app")
        verbose_name_plural = _("authorized apps")
        default_permissions = ("view", "delete")
        ordering = ["-given_at", "-pk"]
        constraints = [
            models.UniqueConstraint(fields=["user", "client", "endpoint"], name="signin_consent_once"),
            models.CheckConstraint(condition=~Q(scopes=""), name="signin_consent_allows"),
        ]

    def __str__(self) -> str:
        return f"{self.user} · {self.client} · {self.endpoint}"

    @classmethod
    def give(
        cls, user: Any, client: Application, endpoint: str, scopes: Iterable[str], *, by: Any = None, reason: str = ""
    ) -> Consent:
        """Add to a person's authorization; `by` is another person if an operator does it."""
        with transaction.atomic():
            consent, _made = cls.objects.select_for_update().get_or_create(
                user=user, client=client, endpoint=endpoint, defaults={"scopes": " ".join(sorted(scopes))}
            )
            consent.scopes = " ".join(sorted({*consent.scopes.split(), *scopes}))
            consent.given_at = timezone.now()
            consent.save()
            consent.record("consent.given", by=by or user, reason=reason)
        return consent

    def revoke(self, *, by: Any = None, reason: str = "") -> None:
        """End the client's access: tokens, codes and the person's open sessions, in all processes."""
        with transaction.atomic():
            _for(RefreshToken, self).filter(revoked__isnull=True).update(revoked=timezone.now())
            tokens = _for(AccessToken, self)
            count = tokens.count()
            tokens.delete()
            _for(Grant, self).delete()
            self.record("consent.revoked", by=by, reason=reason, tokens=count)
            bus.publish(bus.CALLER_ENDED, f"user:{self.user_id}")
            self.delete()

    def record(self, kind: str, *, by: Any = None, reason: str = "", **more: Any) -> None:
        after = {
            "person": f"user:{self.user_id}",
            "client": self.client_id,
            "endpoint": self.endpoint,
            "scopes": self.scopes.split(),
            **more,
        }
        actor = events.actor_of(by) if by is not None else None
        events.record(kind, actor=actor, model=Consent, subject=self.pk, label=str(self), after=after, reason=reason)


def _for(model: Any, consent: Consent) -> Any:
    """Return the rows of a model that a consent gave: each is for one endpoint, which JSON holds as a list of one.

    A command that revokes may run without the flags of the server, so only the path is compared.
    """
    path = urlsplit(endpoints.issuer()).path + consent.endpoint
    rows = model.objects.filter(user=consent.user, application=consent.client)
    chosen = [
        pk for pk, named in rows.values_list("pk", "resource") if [urlsplit(each).path for each in named] == [path]
    ]
    return model.objects.filter(pk__in=chosen)
