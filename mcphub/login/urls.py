"""Where people log in."""

from django.urls import path

from mcphub.login import pages
from mcphub.login.providers import pages as providers

urlpatterns = [
    path("admin/login/", pages.log_in_to_console),
    path("login/", pages.log_in, name="login"),
    path("login/own/", pages.own, name="own-login"),
    path("login/with/<slug:slug>/", providers.start, name="login-with"),
    path("login/back/<slug:slug>/", providers.back, name="login-back"),
]
