"""The rules of the authorization server that django-oauth-toolkit leaves open, or sees otherwise."""

from __future__ import annotations

import hashlib
import uuid
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, Grant, RefreshToken
from oauth2_provider.oauth2_validators import OAuth2Validator
from oauthlib.oauth2.rfc6749 import errors

from mcphub.features.signin.models import Consent
from sessions_app import endpoints, tokens
from sessions_app.history import events
from sessions_app.history.events import Actor

OFFLINE = "offline_access"
"""Asked for by clients that want refresh tokens, which every client gets: taken, and not granted as a scope."""
MOST_CODES = 20
"""Of one person, not yet redeemed."""
MOST_SIGN_INS = 20
"""Of one person with one client: so many devices may hold refresh tokens of their own."""
TOKENS_A_MINUTE = 30
"""Of one person with one client. Each is on record for ever."""
_SAME_REFRESH = timedelta(seconds=10)
"""So long a second use of a refresh token is taken for a client that asked twice, and does not end the sign-in."""


def access_token(request: Any, refresh_token: bool = False) -> str:
    return tokens.new_text(tokens.ACCESS)


def refresh_token(request: Any, refresh_token: bool = True) -> str:
    return tokens.new_text(tokens.REFRESH)


def invalid_target(description: str, state: str | None = None) -> errors.CustomOAuth2Error:
    """Return the error of RFC 8707 for a `resource` that is not served here."""
    return errors.CustomOAuth2Error(error="invalid_target", description=description, state=state)


def endpoint_asked(resources: list[str], state: str | None = None) -> str:
    """Return the endpoint that a client wants a token for; raise invalid_target where it is none, or not one."""
    if len(resources) != 1:
        raise invalid_target("Name one endpoint of this hub in the parameter resource.", state)
    endpoint = endpoints.named(resources[0])
    if not endpoint:
        raise invalid_target("The parameter resource names no endpoint of this hub.", state)
    return endpoint


class TokenRequestValidator(OAuth2Validator):  # type: ignore[misc]
    """Every token is for one endpoint of this hub, and stands on a consent of an active person."""

    # Scopes ----------------------------------------------------------------------------------------

    def validate_scopes(
        self, client_id: str, scopes: list[str], client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        request.scopes = [scope for scope in scopes if scope != OFFLINE]
        return set(request.scopes) <= set(endpoints.SCOPES)

    def is_within_original_scope(
        self, request_scopes: list[str], refresh_token: str, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        request.scopes = [scope for scope in request_scopes if scope != OFFLINE]
        granted = request.refresh_token_instance.access_token.scope.split()
        return bool(request.scopes) and set(request.scopes) <= set(granted)

    # Codes -----------------------------------------------------------------------------------------

    def _create_authorization_code(self, request: Any, code: Any, expires: Any = None) -> Grant:
        old = Grant.objects.filter(user=request.user).order_by("-pk").values_list("pk", flat=True)
        Grant.objects.filter(pk__in=list(old[MOST_CODES - 1 :])).delete()
        return super()._create_authorization_code(request, code, expires)

    def validate_code(self, client_id: str, code: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        if not super().validate_code(client_id, code, client, request, *args, **kwargs):
            _end_redeemed(code, client)
            return False
        grant = Grant.objects.get(code=code, application=client)
        return _stands(request.user, client, grant.resource)

    def invalidate_authorization_code(self, client_id: str, code: str, request: Any, *args: Any, **kwargs: Any) -> None:
        try:
            super().invalidate_authorization_code(client_id, code, request, *args, **kwargs)
        except errors.InvalidGrantError:  # another request redeemed it at the same moment
            _end_redeemed(code, request.client)
            raise

    def _create_refresh_token(
        self, request: Any, refresh_token_code: str, access_token: AccessToken, previous_refresh_token: Any
    ) -> RefreshToken:
        made = super()._create_refresh_token(request, refresh_token_code, access_token, previous_refresh_token)
        if previous_refresh_token is None and request.grant_type == "authorization_code":
            made.token_family = _family_of(request.code)
            made.save(update_fields=["token_family"])
        return made

    # Grants ----------------------------------------------------------------------------------------

    def validate_grant_type(
        self, client_id: str, grant_type: str, client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        is_code = grant_type == "authorization_code" and _signs_in_by_codes(client)
        return is_code or bool(super().validate_grant_type(client_id, grant_type, client, request, *args, **kwargs))

    def validate_response_type(
        self, client_id: str, response_type: str, client: Application, request: Any, *args: Any, **kwargs: Any
    ) -> bool:
        is_code = response_type == "code" and _signs_in_by_codes(client)
        return is_code or bool(
            super().validate_response_type(client_id, response_type, client, request, *args, **kwargs)
        )

    # Tokens ----------------------------------------------------------------------------------------

    def validate_refresh_token(self, refresh_token: str, client: Any, request: Any, *args: Any, **kwargs: Any) -> bool:
        digest = hashlib.sha256(refresh_token.encode("utf-8", "surrogatepass")).hexdigest()
        rows = RefreshToken.objects.filter(token_checksum=digest, application=client).select_related(
            "user", "access_token"
        )
        row = rows.order_by(F("revoked").desc(nulls_first=True)).first()
        if row is None:
            return False
        if row.revoked is not None:
            if timezone.now() - row.revoked > _SAME_REFRESH:
                _end_replayed(row)
            return False
        if row.access_token is None or not _stands(row.user, client, row.resource):
            return False
        if row.access_token.expires + timedelta(days=settings.MCPHUB_SIGN_IN_DAYS) <= timezone.now():
            return False
        # What the toolkit's own method does, which would take two refreshes at once for a theft.
        request.user, request.refresh_token, request.refresh_token_instance = row.user, refresh_token, row
        return True

    def _check_and_set_request_resource(self, request: Any) -> None:
        body = [value for key, value in (getattr(request, "decoded_body", None) or []) if key == "resource"]
        # As the code or the refresh token names it, whichever name of this machine the client uses.
        request.resource = [endpoints.identifier(endpoint_asked(body))] if body else []
        super()._check_and_set_request_resource(request)
        if len(request.resource) != 1:
            raise invalid_target("Name one endpoint of this hub in the parameter resource.")

    def _save_bearer_token(self, token: dict[str, Any], request: Any, *args: Any, **kwargs: Any) -> None:
        used = getattr(request, "refresh_token_instance", None)
        if used is not None and RefreshToken.objects.select_for_update().get(pk=used.pk).revoked is not None:
            raise errors.InvalidGrantError(request=request)  # another request has just used it
        just_now = timezone.now() - timedelta(minutes=1)
        own = RefreshToken.objects.filter(user=request.user, application=request.client, created__gt=just_now)
        if own.count() >= TOKENS_A_MINUTE:
            words = "Too many tokens were given just now. Try again in a minute."
            raise errors.CustomOAuth2Error("temporarily_unavailable", description=words, status_code=429)
        super()._save_bearer_token(token, request, *args, **kwargs)
        if used is None:
            bound_sign_ins(request.user, request.client)
        row = AccessToken.objects.get(token_checksum=hashlib.sha256(token["access_token"].encode()).hexdigest())
        record("token.refreshed" if used is not None else "token.issued", row)

    def revoke_token(self, token: str, token_type_hint: str, request: Any, *args: Any, **kwargs: Any) -> None:
        digest = hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()
        own = {"token_checksum": digest, "application": request.client}
        with transaction.atomic():
            for row in [*AccessToken.objects.filter(**own), *RefreshToken.objects.filter(**own, revoked__isnull=True)]:
                record("token.revoked", row)
            super().revoke_token(token, token_type_hint, request, *args, **kwargs)


def _stands(user: Any, client: Application, resource: list[str]) -> bool:
    """Return whether the rights of a code or a refresh token still exist."""
    if user is None or not user.is_active or len(resource) != 1 or not (endpoint := endpoints.named(resource[0])):
        return False
    return Consent.objects.filter(user=user, client=client, endpoint=endpoint).exists()


def _signs_in_by_codes(client: Application) -> bool:
    """Return whether a client that registered for devices registered redirects too: it may come in either way."""
    return client.authorization_grant_type == Application.GRANT_DEVICE_CODE and bool(client.redirect_uris)


def _family_of(code: str) -> uuid.UUID:
    """Return the family of the tokens that a code gives: by it they are found once the code itself is deleted."""
    return uuid.UUID(bytes=hashlib.sha256(f"the family of {code}".encode("utf-8", "surrogatepass")).digest()[:16])


def _end_redeemed(code: str, client: Application) -> None:
    """End all that came of a code which is presented again (RFC 6749, 4.1.2): somebody else has it, too."""
    rows = RefreshToken.objects.filter(token_family=_family_of(code), application=client)
    row = rows.order_by(F("revoked").desc(nulls_first=True)).first()
    if row is not None:
        _end_replayed(row)


def _end_replayed(row: RefreshToken) -> None:
    """A refresh token or a code was used twice: one of its two holders stole it. All that came of it ends."""
    with transaction.atomic():
        is_new = RefreshToken.objects.filter(token_family=row.token_family, revoked__isnull=True).exists()
        RefreshToken.revoke_family(row.token_family)
        if is_new:
            record("token.replayed", row)


def bound_sign_ins(user: Any, client: Application) -> None:
    """End the oldest of too many sign-ins of one person with one client."""
    live = RefreshToken.objects.filter(user=user, application=client, revoked__isnull=True).order_by("-pk")
    for row in live[MOST_SIGN_INS:]:
        row.revoke()
        record("token.revoked", row, reason="the oldest of too many sign-ins")


def record(kind: str, row: AccessToken | RefreshToken, reason: str = "") -> None:
    """Leave an event of a token: by its id, never by its text."""
    client: Application = row.application
    events.record(
        kind,
        actor=Actor(f"user:{row.user_id}", str(row.user)),
        model=type(row),
        subject=row.pk,
        label=client.name,
        after={"client": client.pk, "endpoint": [endpoints.named(each) for each in row.resource]},
        reason=reason,
    )
