"""Where people log in."""

from django.urls import path

from mcphub.features.login import invited, pages
from mcphub.features.login.factors import pages as factors
from mcphub.features.login.providers import pages as providers

urlpatterns = [
    path("admin/login/", pages.log_in_to_console),
    path("admin/logout/", pages.log_out),
    path("login/", pages.log_in, name="login"),
    path("login/logout/", pages.log_out, name="log-out"),
    path("me/logout/", pages.log_out, name="leave"),
    path("login/own/", pages.own, name="own-login"),
    path("login/own/change/", factors.change, name="own-login-change"),
    path("login/own/app/", factors.add_app, name="second-factor-app"),
    path("login/own/passkey/", factors.add_passkey, name="add-passkey"),
    path("login/second/", factors.ask, name="second-factor"),
    path("login/passkey/", factors.passkey_login, name="passkey-login"),
    path("login/passkey/question/", factors.passkey_question, name="passkey-question"),
    path("login/invited/<str:token>/", invited.invited, name="invited"),
    path("login/with/<slug:slug>/", providers.start, name="login-with"),
    path("login/with/<slug:slug>/metadata/", providers.metadata, name="login-metadata"),
    path("login/back/<slug:slug>/", providers.back, name="login-back"),
]
