"""Where people connect accounts at upstreams."""

from django.urls import path

from mcphub.features.accounts import pages

urlpatterns = [
    path("client.json", pages.document, name="account-client"),
    path("client/<slug:mark>.json", pages.document, name="account-client-of"),
    path("callback/", pages.come_back, name="account-callback"),
    path("callback/<slug:mark>/", pages.come_back, name="account-callback-of"),
    # Slugs of connections and of services may be the same.
    path("to/<slug:slug>/", pages.connect, {"of": "connection"}, name="account-connect"),
    path("to/<slug:slug>/done/", pages.done, {"of": "connection"}, name="account-done"),
    path("to/<slug:slug>/end/", pages.disconnect, {"of": "connection"}, name="account-end"),
    path("service/<slug:slug>/", pages.connect, {"of": "service"}, name="service-account-connect"),
    path("service/<slug:slug>/done/", pages.done, {"of": "service"}, name="service-account-done"),
    path("service/<slug:slug>/end/", pages.disconnect, {"of": "service"}, name="service-account-end"),
]
