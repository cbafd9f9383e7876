from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class LoginConfig(AppConfig):
    name = "mcphub.login"
    label = "login"
    verbose_name = _("Login")
