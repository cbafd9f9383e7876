import sys
from collections.abc import Sequence

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib import admin
from django.contrib.admin import checks as admin_checks
from django.contrib.admin.apps import SimpleAdminConfig
from django.core import checks
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class AdminConfig(SimpleAdminConfig):
    """The admin, whose pages are imported by the URL configuration: a command without pages starts in two thirds of
    the time.
    """

    default_site = "mcphub.site.HubSite"

    def ready(self) -> None:
        checks.register(_check_pages, checks.Tags.admin)
        checks.register(admin_checks.check_dependencies, checks.Tags.admin)


def _check_pages(app_configs: Sequence[AppConfig] | None, **options: object) -> list[checks.CheckMessage]:
    admin.autodiscover()
    return admin_checks.check_admin_app(app_configs, **options)


class McpHubConfig(AppConfig):
    default = True  # of the two here; with none, Django would quietly take one of its own
    name = "mcphub"
    default_auto_field = "django.db.models.BigAutoField"
    verbose_name = _("Hub")

    def ready(self) -> None:
        from mcphub import checks, ending, groups  # noqa: F401 - the checks register themselves
        from tools_catalog.upstream.confinement import kernel

        ending.connect()
        if settings.MCPHUB_EMBEDDED:  # a host has groups of its own, and commands that are none of the hub's
            from mcphub.embedding import checks as _checks  # noqa: F401 - they register themselves
            from mcphub.embedding import flushing

            flushing.connect()
            return
        # It holds the keys of the hub, which its children would else read from /proc.
        if sys.platform == "linux":
            kernel.be_undumpable()
        # Django signals only apps that have models; this one has none, and stands above those that have.
        post_migrate.connect(groups.install, sender=apps.get_app_config("invocations"), dispatch_uid="mcphub groups")
