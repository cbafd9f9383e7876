"""The pages of signing in: the login, and the page that asks for authorization of a client."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.contrib.auth.mixins import LoginRequiredMixin
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse, reverse_lazy
from django.utils.decorators import method_decorator
from django.utils.translation import gettext as _
from django.views import View
from django.views.decorators.cache import never_cache
from oauth2_provider.exceptions import OAuthToolkitError
from oauth2_provider.models import Application
from oauth2_provider.views.base import BaseAuthorizationView
from oauthlib.oauth2.rfc6749 import errors

from mcphub import content_security, error_pages
from mcphub.features.signin import clients
from mcphub.features.signin.advice import ADVICE
from mcphub.features.signin.grants import device
from mcphub.features.signin.models import Consent
from mcphub.features.signin.server import endpoint_asked
from mcphub.process import runtime
from sessions_app import endpoints
from sessions_app.caller import Caller, person_of
from sessions_app.history import bounded, events
from sessions_app.kit.shown import clipped
from sessions_app.login.session_store import OPENED_AT
from sessions_app.protocol.errors import HubError
from tools_catalog.catalog.snapshot import Catalog

_MOST_TOOLS = 200
"""Names of tools on the page; of more there is the number."""
_WRONG_CODES = "wrong_device_codes"
"""The name in the session of the login for how many codes of devices were wrong."""
_MOST_WRONG_CODES = 20
_SHOWN_TO = "asked_since"
"""The name in the session of the login for which a page of consent was shown."""


@dataclass(frozen=True, slots=True)
class AuthorizationRequest:
    """A client's checked authorization request."""

    client: Application
    endpoint: str
    scopes: tuple[str, ...]
    redirect_uri: str
    credentials: dict[str, Any]

    @property
    def is_local(self) -> bool:
        return clients.is_local(self.redirect_uri)


@method_decorator(never_cache, name="dispatch")
class Authorize(BaseAuthorizationView):  # type: ignore[misc]
    """`/oauth/authorize/`: GET shows the request that POST decides, both from the address."""

    login_url = reverse_lazy("sign-in")

    def get(self, request: HttpRequest) -> HttpResponse:
        try:
            asked = self._asked(request)
            if self._is_remembered(request, asked):
                return self._let_in(request, asked)
        except OAuthToolkitError as error:
            return self.error_response(error, application=None)
        return _consent_page(request, asked)

    def post(self, request: HttpRequest) -> HttpResponse:
        try:
            asked = self._asked(request)
            if "allow" not in request.POST:
                error = errors.AccessDeniedError(state=asked.credentials.get("state"))
                raise _with_target(error, asked.redirect_uri)
            Consent.give(request.user, asked.client, asked.endpoint, asked.scopes)
            return self._let_in(request, asked)
        except OAuthToolkitError as error:
            return self.error_response(error, application=None)

    def _asked(self, request: HttpRequest) -> AuthorizationRequest:
        """Read the request; raise OAuthToolkitError, whose kind shows whether the client can be informed."""
        if "\x00" in request.get_full_path() or "%00" in request.get_full_path():
            raise _fatal("A parameter holds a NUL character.")
        scopes, credentials = self.validate_authorization_request(request)
        client = Application.objects.get(client_id=credentials["client_id"])
        redirect_uri, state = credentials["redirect_uri"], credentials.get("state")
        try:
            endpoint = endpoint_asked(request.GET.getlist("resource"), state)
            if credentials.get("code_challenge_method") != "S256":
                raise errors.InvalidRequestError(description="code_challenge_method must be S256.", state=state)
            needed = endpoints.scopes_of(endpoint)
            granted = [scope for scope in scopes if scope in needed] if request.GET.get("scope") else needed
            if not _is_there(request.user, endpoint):
                raise endpoint_refused(state)
        except errors.OAuth2Error as error:
            raise _with_target(error, redirect_uri) from error
        return AuthorizationRequest(client, endpoint, tuple(granted or needed), redirect_uri, credentials)

    def _is_remembered(self, request: HttpRequest, asked: AuthorizationRequest) -> bool:
        """Return whether the page need not ask again.

        A program on this machine is asked about each time, since it could be any, and so is every client after a
        login: people see for whom they logged in.
        """
        since = request.session.get(OPENED_AT)
        has_just_logged_in = request.session.get(_SHOWN_TO) != since
        request.session[_SHOWN_TO] = since
        if asked.is_local or has_just_logged_in or "consent" in request.GET.get("prompt", "").split():
            return False
        return Consent.objects.covering(request.user, asked.client, asked.endpoint, asked.scopes)

    def _let_in(self, request: HttpRequest, asked: AuthorizationRequest) -> HttpResponse:
        credentials = {**asked.credentials, "resource": [endpoints.identifier(asked.endpoint)]}
        uri, _headers, _body, _status = self.create_authorization_response(
            request=request, scopes=" ".join(asked.scopes), credentials=credentials, allow=True
        )
        answer: HttpResponse = self.redirect(uri, asked.client)
        return answer

    def error_response(self, error: OAuthToolkitError, application: Any, **kwargs: Any) -> HttpResponse:
        """Redirect to the client, with the issuer's name, or show the error to the person if the client is unknown."""
        cause = error.oauthlib_error
        bounded.note(
            "authorization.refused",
            actor=events.actor_of(self.request.user),
            error=str(cause.error),
            reason=str(cause.description or ""),
            client_id=self.request.GET.get("client_id", "")[:200],
            address=str(self.request.META.get("REMOTE_ADDR") or "")[:64],
        )
        if not _can_be_told(error):
            words = _(
                "No client of this hub can have created this page's address: %(reason)s. Nothing was "
                "authorized. Return to the client and connect again; if it happens again, contact the hub's "
                "operator."
            ) % {"reason": clipped(cause.description or cause.error, 200)}
            return error_pages.refused_client(words)
        told = {"error_description": ADVICE.get(cause.error, ""), **dict(cause.twotuples), "iss": endpoints.issuer()}
        separator = "&" if "?" in cause.redirect_uri else "?"
        answer: HttpResponse = self.redirect(f"{cause.redirect_uri}{separator}{urlencode(told)}", None)
        return answer


@method_decorator(never_cache, name="dispatch")
class Device(LoginRequiredMixin, View):
    """`/oauth/device/`: a person enters the code of a device, sees its request, and decides."""

    login_url = reverse_lazy("sign-in")

    def get(self, request: HttpRequest) -> HttpResponse:
        code = request.GET.get("code", "")
        if not code:
            return self._ask(request)
        if request.session.get(_WRONG_CODES, 0) >= _MOST_WRONG_CODES:
            words = _("Too many wrong codes. Log out, wait a moment, and start again on the device.")
            return self._ask(request, words, status=429)
        found = device.waiting(code)
        if found is None or not _is_there(request.user, found.endpoint):
            request.session[_WRONG_CODES] = request.session.get(_WRONG_CODES, 0) + 1
            return self._ask(request, _("No device is waiting with this code. Codes work once, for 10 minutes."), 404)
        context = {**_described(request, found.client, found.endpoint, found.scopes), "code": code[:40]}
        return render(request, "signin/device.html", context)

    def post(self, request: HttpRequest) -> HttpResponse:
        found = device.waiting(request.POST.get("code", ""))
        allow = "allow" in request.POST
        is_open = found is not None and _is_there(request.user, found.endpoint)
        if found is None or not is_open or not device.decide(found, request.user, allow=allow):
            return self._ask(request, _("No device is waiting with this code. Codes work once, for 10 minutes."), 404)
        context = {"is_allowed": allow, "name": clipped(found.client.name, 100), "person": request.user.get_username()}
        return render(request, "signin/device_done.html", context)

    def _ask(self, request: HttpRequest, problem: str = "", status: int = 200) -> HttpResponse:
        return render(request, "signin/device_code.html", {"problem": str(problem)}, status=status)


def endpoint_refused(state: str | None) -> errors.OAuth2Error:
    return errors.CustomOAuth2Error(
        error="invalid_target", description="There is no such toolset for this person.", state=state
    )


def _with_target(error: errors.OAuth2Error, redirect_uri: str) -> OAuthToolkitError:
    error.redirect_uri = redirect_uri
    return OAuthToolkitError(error=error)


def _fatal(description: str) -> OAuthToolkitError:
    return OAuthToolkitError(error=errors.InvalidRequestFatalError(description=description))


def _can_be_told(error: OAuthToolkitError) -> bool:
    """Return whether the address in the error is one that the client registered: the toolkit has checked it by then."""
    cause = error.oauthlib_error
    return bool(cause.redirect_uri) and not isinstance(cause, errors.FatalClientError)


# The page ----------------------------------------------------------------------------------------------


def _consent_page(request: HttpRequest, asked: AuthorizationRequest) -> HttpResponse:
    context = {
        **_described(request, asked.client, asked.endpoint, asked.scopes),
        "target": clients.target_of(asked.redirect_uri),
        "is_local": asked.is_local,
        "was_allowed": Consent.objects.covering(request.user, asked.client, asked.endpoint, asked.scopes),
    }
    response = render(request, "signin/consent.html", context)
    response["Content-Security-Policy"] = content_security.leading_to(_source_of(asked.redirect_uri))
    return response


def _described(request: HttpRequest, client: Application, endpoint: str, scopes: tuple[str, ...]) -> dict[str, object]:
    """Return the page's description of the client and its request."""
    words = {
        "tools:list": _("see the tools available to you"),
        "tools:call": _("use these tools in your name; each call is recorded under your name and the client's"),
        "chat": _("use the hub's models in your name"),
    }
    names = _tools_for(request.user, endpoint) if "tools:call" in scopes else []
    host = urlsplit(client.client_id).hostname if "://" in client.client_id else ""
    return {
        "name": clipped(client.name, 100) or _("Unnamed client"),
        "client_host": host,
        "by_itself": client.registration_source == Application.RegistrationSource.DCR,
        "endpoint": endpoints.identifier(endpoint, request.get_host()),
        "toolset": endpoints.toolset_of(endpoint),
        "scopes": [words[scope] for scope in ("tools:list", "tools:call", "chat") if scope in scopes],
        "tools": [clipped(name, 100) for name in names[:_MOST_TOOLS]],
        "more_tools": max(0, len(names) - _MOST_TOOLS),
        "tool_count": len(names),
        "person": request.user.get_username(),
        "other_login": f"{reverse('sign-in')}?{urlencode({'next': request.get_full_path()})}",
    }


def _source_of(redirect_uri: str) -> str:
    """Return an address as a content security policy names where a form may lead."""
    parts = urlsplit(redirect_uri)
    return f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def _at(endpoint: str, catalog: Catalog, user: Any) -> Caller:
    """Return the caller that a person is at an endpoint; raise WorkspaceNotFound."""
    name, person = endpoints.workspace_of(endpoint), person_of(user)
    return person.within(catalog.workspace(name, person)) if name else person


def _is_there(user: Any, endpoint: str) -> bool:
    """Return whether the endpoint leads somewhere for the person."""
    hub, name = runtime.current(), endpoints.toolset_of(endpoint)
    if hub is None:
        return True
    try:
        person = _at(endpoint, hub.configuration.catalog, user)
        if name:
            hub.configuration.catalog.toolset(name, person)
    except HubError:
        return False
    return True


def _tools_for(user: Any, endpoint: str) -> list[str]:
    hub, name = runtime.current(), endpoints.toolset_of(endpoint)
    if hub is None:
        return []
    catalog = hub.configuration.catalog
    person = _at(endpoint, catalog, user)
    selection = catalog.toolset(name, person) if name else catalog
    return [tool.name for tool in selection.tools.values() if tool.enabled and tool.visible_to(person)]
