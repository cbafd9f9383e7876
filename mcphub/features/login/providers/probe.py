"""A test of one provider for its operator: the content of its discovery. Nobody is logged in by it."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography import x509
from django.utils import timezone

from mcphub.features.login.models import LoginProvider
from mcphub.features.login.providers import asking, saml
from mcphub.features.login.providers.oidc import ProviderFault
from sessions_app.login.hashing import release_connection

ISSUER, KEYS, PKCE, SCOPES, LOGOUT = "issuer", "keys", "pkce", "scopes", "logout"


@dataclass(frozen=True, slots=True)
class LoginProbeStep:
    """`kind` is one of the above; `detail` is the result, or the problem."""

    kind: str
    is_good: bool
    detail: str
    is_optional: bool = False
    """Whether logins go on without it."""


def probe(provider: LoginProvider) -> list[LoginProbeStep]:
    """Ask for discovery and keys; a step that fails ends the test where the later ones need it."""
    if provider.kind == LoginProvider.Kind.SAML:
        return _of_saml(provider)
    release_connection()
    try:
        metadata = asking.metadata_of(provider.issuer, fresh=True)
    except ProviderFault as fault:
        return [LoginProbeStep(ISSUER, False, str(fault))]
    addresses = [metadata.issuer, metadata.authorization_endpoint, metadata.token_endpoint, metadata.userinfo_endpoint]
    steps = [LoginProbeStep(ISSUER, True, "\n".join(filter(None, addresses)))]
    try:
        keys = asking.keys_of(metadata, fresh=True)
    except ProviderFault as fault:
        return [*steps, LoginProbeStep(KEYS, False, str(fault))]
    names = [f"{key_id or '-'} ({each.key_type})" for key_id, some in keys.items() for each in some]
    steps.append(LoginProbeStep(KEYS, bool(names), "\n".join(names) or "None of its keys is one that the hub takes."))
    steps.append(LoginProbeStep(PKCE, metadata.has_pkce, "S256" if metadata.has_pkce else "It does not say so.", True))
    missing = [each for each in provider.scopes.split() if metadata.scopes and each not in metadata.scopes]
    said = f"It does not list: {', '.join(missing)}." if missing else provider.scopes
    steps.append(LoginProbeStep(SCOPES, not missing, said, True))
    where = metadata.end_session_endpoint
    steps.append(LoginProbeStep(LOGOUT, bool(where), where or "Who logs out of the hub stays logged in there.", True))
    return steps


def _of_saml(provider: LoginProvider) -> list[LoginProbeStep]:
    """Return the checks of the row that need no person: SAML offers nothing to query."""
    try:
        request, address = saml.request_of(provider)
    except ProviderFault as fault:
        return [LoginProbeStep(ISSUER, False, str(fault))]
    steps = [LoginProbeStep(ISSUER, bool(request), f"{provider.issuer}\n{address.partition('?')[0]}")]
    now = timezone.now()
    for each in x509.load_pem_x509_certificates(provider.certificates.encode()):
        is_good = each.not_valid_before_utc <= now <= each.not_valid_after_utc
        days = f"{each.not_valid_before_utc:%Y-%m-%d} – {each.not_valid_after_utc:%Y-%m-%d}"
        steps.append(LoginProbeStep(KEYS, is_good, f"{each.subject.rfc4514_string()}\n{days}"))
    return steps
