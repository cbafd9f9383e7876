"""Where signing in is served, if it is."""

from django.conf import settings
from django.urls import path

from mcphub.features.login.pages import log_in
from mcphub.features.signin import pages, programs

_served = [
    path(".well-known/oauth-authorization-server", programs.ServerDocument.as_view()),
    path(".well-known/oauth-protected-resource", programs.EndpointDocument.as_view()),
    path(".well-known/oauth-protected-resource/<path:path>", programs.EndpointDocument.as_view()),
    path("oauth/login/", log_in, name="sign-in"),
    path("oauth/authorize/", pages.Authorize.as_view(), name="authorize"),
    path("oauth/token/", programs.Token.as_view(), name="token"),
    path("oauth/introspect/", programs.Introspection.as_view(), name="introspect"),
    path("oauth/device_authorization/", programs.DeviceAuthorization.as_view(), name="device-authorization"),
    path("oauth/device/", pages.Device.as_view(), name="device"),
    path("oauth/revoke/", programs.Revocation.as_view(), name="revoke"),
]
if settings.MCPHUB_CLIENT_REGISTRATION:
    _served += [path("oauth/register/", programs.Registration.as_view(), name="register")]
urlpatterns = _served if settings.MCPHUB_SIGN_IN else []
