"""Where *My access* is served."""

from django.urls import path

from mcphub.my_access import pages

urlpatterns = [
    path("me/", pages.show, name="my-access"),
    path("me/calls/", pages.calls, name="my-calls"),
    path("me/calls/<str:invocation_id>/", pages.call, name="my-call"),
    path("me/<slug:part>/<slug:word>/", pages.do, name="my-deed"),
]
