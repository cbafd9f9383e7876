"""Endpoints that clients call without a person: the hub's metadata, registration, tokens, revocation."""

from __future__ import annotations

import time
from collections.abc import Callable

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt
from oauth2_provider.generators import generate_client_id, generate_client_secret
from oauth2_provider.models import Application
from oauth2_provider.views import RevokeTokenView, TokenView

from mcphub.features.signin import clients
from mcphub.features.signin.advice import ADVICE
from mcphub.features.signin.clients import ClientRefused
from mcphub.features.signin.grants import assertions, device, introspection, services
from mcphub.features.signin.grants.asking import OAuthRefused
from mcphub.features.signin.models import Issuer
from sessions_app import endpoints
from sessions_app.history import bounded
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

_MOST_BYTES = 32 * 1024
"""Of a request to these addresses."""
_AUTH_METHODS = ("none", "client_secret_basic", "client_secret_post")
_GRANTS = ("authorization_code", "refresh_token")
"""Of clients that register themselves, unless they register for devices."""
_OTHERS: dict[str, Callable[[HttpRequest], dict[str, Json]]] = {
    device.GRANT: device.answer,
    services.GRANT: services.answer,
    assertions.GRANT: assertions.answer,
}
"""Grants without the toolkit -> their handlers."""


class _ForPrograms(View):
    """Pages of other origins may call it: nothing here depends on a cookie."""

    @method_decorator(csrf_exempt)
    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        response: HttpResponseBase
        if request.method == "OPTIONS":
            response = HttpResponse(status=204)
            response["Access-Control-Allow-Methods"] = "GET, POST"
            response["Access-Control-Allow-Headers"] = "Authorization, Content-Type, MCP-Protocol-Version"
        elif int(request.META.get("CONTENT_LENGTH") or 0) > _MOST_BYTES:
            response = _error("invalid_request", f"The body is larger than {_MOST_BYTES} bytes. Send less.", 413)
        else:
            response = super().dispatch(request, *args, **kwargs)
        response["Access-Control-Allow-Origin"] = "*"
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    def http_method_not_allowed(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        served = "POST" if hasattr(self, "post") else "GET"
        response = _error("invalid_request", f"{request.method} is not served here. Use {served}.", 405)
        response["Allow"] = served
        return response


class ServerDocument(_ForPrograms):
    """The authorization server's metadata (RFC 8414)."""

    def get(self, request: HttpRequest) -> HttpResponse:
        base = endpoints.issuer()
        methods = list(_AUTH_METHODS)
        document: dict[str, Json] = {
            "issuer": base,
            "authorization_endpoint": f"{base}/oauth/authorize/",
            "token_endpoint": f"{base}/oauth/token/",
            "revocation_endpoint": f"{base}/oauth/revoke/",
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": [*_GRANTS, *_OTHERS],
            "device_authorization_endpoint": f"{base}/oauth/device_authorization/",
            "introspection_endpoint": f"{base}/oauth/introspect/",
            "introspection_endpoint_auth_methods_supported": methods[1:],
            "authorization_grant_profiles_supported": [assertions.PROFILE],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": methods,
            "revocation_endpoint_auth_methods_supported": methods,
            "scopes_supported": list(endpoints.SCOPES),
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": True,
            "ui_locales_supported": [code for code, _name in settings.LANGUAGES],
        }
        if settings.MCPHUB_CLIENT_REGISTRATION:
            document["registration_endpoint"] = f"{base}/oauth/register/"
        return JsonResponse(document)


class EndpointDocument(_ForPrograms):
    """An endpoint's metadata for clients before they sign in (RFC 9728)."""

    def get(self, request: HttpRequest, path: str = "") -> HttpResponse:
        endpoint = f"/{path}".removesuffix("/")
        if endpoint and endpoints.of_path(endpoint) != endpoint:
            return _error("not_found", "The hub has no endpoint of this address. MCP is at /mcp.", 404)
        scopes = endpoints.scopes_of(endpoint or endpoints.MAIN)
        document = {
            "resource": endpoints.identifier(endpoint, request.get_host()),
            "authorization_servers": [endpoints.issuer(), *announced()],
            "scopes_supported": list(scopes),
            "bearer_methods_supported": ["header"],
            "resource_name": "MCP Hub",
        }
        return JsonResponse(document)


def announced() -> list[str]:
    """Return the trusted issuers advertised to clients."""
    return list(Issuer.objects.filter(enabled=True, announced=True).values_list("issuer", flat=True))


class Registration(_ForPrograms):
    """A client makes itself known (RFC 7591). It is trusted with nothing until a person allows it something."""

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            told = json.loads(request.body)
            if not isinstance(told, dict):
                raise ClientRefused("The body must be a JSON object.")
            fields = _registered(told)
        except ParseError as error:
            return _error("invalid_client_metadata", f"The body must be JSON. {error}")
        except ClientRefused as refusal:
            return _error(refusal.error, str(refusal))
        secret = generate_client_secret() if fields["client_type"] == Application.CLIENT_CONFIDENTIAL else ""
        with transaction.atomic():
            address = str(request.META.get("REMOTE_ADDR") or "")[:64]
            if (wait := clients.must_wait(address)) or not clients.make_room():
                words = "Too many clients registered from this network, or at once. Try again later."
                answer = _error("temporarily_unavailable", words, 429)
                answer["Retry-After"] = str(wait or 60)
                return answer
            client = Application.objects.create(client_id=generate_client_id(), client_secret=secret, **fields)
            clients.record(client, address)
        body = {
            "client_id": client.client_id,
            "client_id_issued_at": int(time.time()),
            "client_name": client.name,
            "redirect_uris": client.redirect_uris.split(),
            "grant_types": _grants_of(client),
            "response_types": ["code"] if client.redirect_uris else [],
            "token_endpoint_auth_method": told.get("token_endpoint_auth_method") or _AUTH_METHODS[1],
        }
        if secret:
            body |= {"client_secret": secret, "client_secret_expires_at": 0}
        return JsonResponse(body, status=201)


def _registered(told: dict[str, Json]) -> dict[str, str]:
    """Return the columns of a client; raise ClientRefused."""
    method = told.get("token_endpoint_auth_method") or _AUTH_METHODS[1]
    if method not in _AUTH_METHODS:
        raise ClientRefused(f"token_endpoint_auth_method must be one of {', '.join(_AUTH_METHODS)}.")
    grants, by_devices = _names(told, "grant_types", "authorization_code"), False
    if device.GRANT in grants:
        by_devices = True
    elif "authorization_code" not in grants:
        raise ClientRefused(f"grant_types must be an array with authorization_code or {device.GRANT}.")
    if only_devices := by_devices and "authorization_code" not in grants:
        redirects: list[str] = []
    else:
        redirects = clients.checked_redirects(told.get("redirect_uris"))
    if "code" not in _names(told, "response_types", "code") and not only_devices:
        raise ClientRefused("response_types must be an array with code.")
    return {
        "name": clients.checked_name(told.get("client_name")),
        "redirect_uris": " ".join(redirects),
        "client_type": Application.CLIENT_PUBLIC if method == "none" else Application.CLIENT_CONFIDENTIAL,
        "authorization_grant_type": (
            Application.GRANT_DEVICE_CODE if by_devices else Application.GRANT_AUTHORIZATION_CODE
        ),
        "registration_source": Application.RegistrationSource.DCR,
    }


def _names(told: dict[str, Json], member: str, default: str) -> list[Json]:
    given = told.get(member)
    if given is None:
        return [default]
    if not isinstance(given, list):
        raise ClientRefused(f"{member} must be an array.")
    return given


def _grants_of(client: Application) -> list[str]:
    if client.authorization_grant_type != Application.GRANT_DEVICE_CODE:
        return list(_GRANTS)
    return [*_GRANTS, device.GRANT] if client.redirect_uris else [device.GRANT, "refresh_token"]


class Token(_ForPrograms, TokenView):  # type: ignore[misc]
    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        other = _OTHERS.get(request.POST.get("grant_type", ""))
        if other is not None:
            return _answered(request, other)
        return _as_oauth(request, lambda: self.authorization_flow_token_response(request))


class Revocation(_ForPrograms, RevokeTokenView):  # type: ignore[misc]
    def post(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponse:
        return _as_oauth(request, lambda: super(Revocation, self).post(request, *args, **kwargs))


class DeviceAuthorization(_ForPrograms):
    """A device begins to wait for its person (RFC 8628)."""

    def post(self, request: HttpRequest) -> HttpResponse:
        return _answered(request, device.begin)


class Introspection(_ForPrograms):
    """The state of a token (RFC 7662)."""

    def post(self, request: HttpRequest) -> HttpResponse:
        return _answered(request, introspection.answer)


def _answered(request: HttpRequest, answer: Callable[[HttpRequest], dict[str, Json]]) -> HttpResponse:
    if _has_nul(request):
        return _error("invalid_request", "A parameter holds a NUL character. Send it without.")
    try:
        return JsonResponse(answer(request))
    except OAuthRefused as refusal:
        _note_refusal(request, refusal.error, str(refusal))
        response = _error(refusal.error, str(refusal), refusal.status)
        if refusal.status == 401:
            response["WWW-Authenticate"] = 'Basic realm="mcphub"'
        elif refusal.status in (429, 503):
            response["Retry-After"] = "60" if refusal.status == 429 else "5"
        return response


def _note_refusal(request: HttpRequest, error: str, words: str) -> None:
    """Record an event, except for answers that clients receive repeatedly while they wait or start."""
    if error in ("authorization_pending", "slow_down"):
        return
    grant, client_id = request.POST.get("grant_type", ""), request.POST.get("client_id", "")
    client = Application.objects.filter(client_id=client_id).first() if client_id and len(client_id) < 256 else None
    bounded.note(
        "token.refused",
        label=client.name if client is not None else "",
        error=error,
        reason=words,
        path=request.path,
        client=client.pk if client is not None else None,
        grant=grant[:100],
        address=str(request.META.get("REMOTE_ADDR") or "")[:64],
    )


def _has_nul(request: HttpRequest) -> bool:
    """No parameter has one, and PostgreSQL cannot even be asked about it."""
    return any("\x00" in value for values in request.POST.lists() for value in values[1])


def _as_oauth(request: HttpRequest, answer: Callable[[], HttpResponse]) -> HttpResponse:
    """Answer in JSON, with the content type that the toolkit omits on some answers, and advice for each error."""
    if _has_nul(request):
        return _error("invalid_request", "A parameter holds a NUL character. Send it without.")
    response = answer()
    if response.content:
        response["Content-Type"] = "application/json"
        told = json.loads(response.content)
        if isinstance(told, dict) and "error" in told:
            _note_refusal(request, str(told["error"]), str(told.get("error_description", "")))
        if (
            isinstance(told, dict)
            and "error_description" not in told
            and (advice := ADVICE.get(str(told.get("error"))))
        ):
            response.content = json.dumps({**told, "error_description": advice})
    return response


def _error(error: str, description: str, status: int = 400) -> HttpResponse:
    return JsonResponse({"error": error, "error_description": description}, status=status)
