from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.triggers import install_after_migrate


class SigninConfig(AppConfig):
    name = "mcphub.signin"
    label = "signin"
    verbose_name = _("Sign-in")

    def ready(self) -> None:
        from mcphub.signin import ending
        from mcphub.signin.rules import RULES

        ending.connect()
        install_after_migrate(self, RULES)
