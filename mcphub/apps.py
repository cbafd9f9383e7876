from django.apps import AppConfig, apps
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class McpHubConfig(AppConfig):
    name = "mcphub"
    verbose_name = _("Hub")

    def ready(self) -> None:
        from mcphub import checks, groups  # noqa: F401 - the checks register themselves

        # Django signals only apps that have models; this one has none, and stands above those that have.
        post_migrate.connect(groups.install, sender=apps.get_app_config("invocations"), dispatch_uid="mcphub groups")
