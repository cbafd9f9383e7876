from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class InvocationsConfig(AppConfig):
    name = "invocations"
    verbose_name = _("Calls")
