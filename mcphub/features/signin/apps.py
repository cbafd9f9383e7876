from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject
from mcphub.parts import (
    ConsolePage,
    DoctorCheck,
    HubCommand,
    MyAccessPart,
    PageRoutes,
    PeriodicSweep,
    RolePermissions,
    TokenSource,
)
from sessions_app.kit.features import FeatureConfig


class SigninConfig(FeatureConfig):
    name = "mcphub.features.signin"
    label = "signin"
    verbose_name = _("Sign-in")
    requires = ("login",)
    embeds = True
    always = "access tokens are read and ended by it. MCPHUB_SIGN_IN=0 lets nobody sign clients in."
    parts = (
        HubCommand("service", "make a service that comes in with client credentials", "mcphub.features.signin.command"),
        PageRoutes("mcphub.features.signin.urls"),
        ConsolePage(
            "access",
            _("Authorized apps"),
            "devices",
            "signin_consent",
            place=50,
            words=_("oauth apps grants clients"),
            about=_(
                "When a person signs in through a client, the app that they authorize is listed here, and can be "
                "revoked."
            ),
            docs="secure/access#what-the-operator-does",
            group=_("Apps"),
        ),
        ConsolePage(
            "access",
            _("Trusted issuers"),
            "verified_user",
            "signin_issuer",
            place=60,
            words=_("oauth jwt idp authorization server entra okta"),
            about=_(
                "A trusted issuer is your own authorization server. The hub accepts the access tokens that it issues."
            ),
            docs="secure/access#tokens-of-your-own-authorization-server",
            group=_("Login"),
        ),
        MyAccessPart("mcphub.features.signin.my_clients:PART", place=25),
        TokenSource("mcphub.features.signin.issuers.tokens:ForeignTokens"),
        PeriodicSweep("mcphub.features.signin.sweeping:sweep"),
        DoctorCheck(_("public address"), "mcphub.features.signin.public_address:check"),
        RolePermissions(("signin.view_consent", "signin.view_issuer"), ("Auditor", "Operator")),
        RolePermissions(
            ("signin.delete_consent", "signin.add_issuer", "signin.change_issuer", "signin.test_issuer"), ("Operator",)
        ),
        EventSubject("issuer", _("trusted issuers")),
        EventSubject("consent", _("authorized apps")),
        EventSubject("token", _("client tokens")),
    )

    def ready(self) -> None:
        from mcphub.features.signin.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        install_after_migrate(self, RULES)
