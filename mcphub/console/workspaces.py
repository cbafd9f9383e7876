"""The page on which a person chooses the workspace to act in, or leaves it for the whole hub."""

from __future__ import annotations

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.translation import gettext as _

from sessions_app.models import McpWorkspace
from sessions_app.workspaces import acting, roles

acting.PAGES.update({"choose-workspace", "index"})


def choose_view(request: HttpRequest) -> HttpResponse:
    offered = roles.open_to(request.user)
    if request.user.is_superuser:  # who may act in each, and is shown the one that he came for
        wanted = request.POST.get("workspace") or request.GET.get("to", "")
        offered = list({*offered, *McpWorkspace.objects.filter(slug=wanted)})
    is_of_hub = bool(request.user.is_staff)
    if request.method == "POST":
        wanted = request.POST.get("workspace", "")
        found = next((each for each in offered if each.slug == wanted), None)
        if found is None and (wanted or not is_of_hub):
            raise Http404
        acting.choose(request, found)
        words = _("You are in the workspace %(name)s.") if found is not None else _("You are in the whole hub.")
        messages.success(request, words % {"name": found})
        return redirect("admin:index")
    context = {
        **admin.site.each_context(request),
        "title": _("Workspaces"),
        "offered": offered,
        "is_of_hub": is_of_hub,
        "acting": acting.acting_of(request.user),
    }
    return TemplateResponse(request, "admin/hub/workspaces.html", context)


urlpatterns = [path("workspaces/", admin.site.admin_view(choose_view), name="choose-workspace")]
