from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.translation import gettext_lazy as _


class McpHubConfig(AppConfig):
    name = "mcphub"
    verbose_name = _("Hub")

    def ready(self) -> None:
        from mcphub import checks, groups  # noqa: F401 - the checks register themselves

        post_migrate.connect(groups.install, sender=self, dispatch_uid="mcphub groups")
