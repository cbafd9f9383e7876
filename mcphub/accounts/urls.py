"""Where people connect accounts at upstreams."""

from django.urls import path

from mcphub.accounts import pages

urlpatterns = [
    path("client.json", pages.document, name="account-client"),
    path("callback/", pages.come_back, name="account-callback"),
    path("to/<slug:slug>/", pages.connect, name="account-connect"),
    path("to/<slug:slug>/done/", pages.done, name="account-done"),
    path("to/<slug:slug>/end/", pages.disconnect, name="account-end"),
]
