from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject
from mcphub.parts import ConsolePage, ConsoleSettings, HubCommand, PageRoutes, PaletteAction, RolePermissions
from sessions_app.kit.features import FeatureConfig


class LoginConfig(FeatureConfig):
    name = "mcphub.features.login"
    label = "login"
    verbose_name = _("Login")
    embeds = True
    always = "it asks for second factors, and ends logins."
    parts = (
        HubCommand(
            "second-factor", "take away the second factors of a person who lost them", "mcphub.features.login.command"
        ),
        PageRoutes("mcphub.features.login.urls"),
        ConsolePage(
            "access",
            _("Invitations"),
            "mail",
            "login_invitation",
            place=45,
            words=_("new user onboarding"),
            about=_("An invitation is a link by which a person sets a password and gets groups."),
            docs="secure/access#inviting-people",
        ),
        ConsolePage(
            "access",
            _("Login providers"),
            "login",
            "login_loginprovider",
            place=70,
            words=_("sso saml oidc identity provider okta google ldap"),
            about=_("A login provider lets people log in with their account at your identity provider (SSO)."),
            docs="secure/access#logging-in-with-an-account-elsewhere",
            group=_("Login"),
        ),
        ConsolePage(
            "access",
            _("Linked identities"),
            "link",
            "login_linkedidentity",
            place=80,
            words=_("sso linked accounts"),
            about=_("A person's first login by a login provider links their account there to the one here."),
            docs="secure/access#logging-in-with-an-account-elsewhere",
            group=_("Login"),
        ),
        ConsolePage(
            "access",
            _("Second factors"),
            "password",
            "login_secondfactor",
            place=90,
            words=_("mfa 2fa totp passkey authenticator otp"),
            about=_("Authenticator apps and passkeys that people add for their own login are listed here."),
            docs="secure/access#a-second-factor",
            group=_("Login"),
        ),
        ConsoleSettings("signin", "login_loginprovider", _("Identity providers (SSO) by which people log in.")),
        PaletteAction(
            _("Invite someone"), "mail", "admin:login_invitation_add", ("login.add_invitation",), _("new person user")
        ),
        RolePermissions(("login.view_loginprovider", "login.view_invitation", "login.view_secondfactor"), ("Auditor",)),
        RolePermissions(("login.view_linkedidentity",), ("Auditor", "Operator")),
        RolePermissions(("login.delete_linkedidentity",), ("Operator",)),
        EventSubject("loginprovider", _("login providers")),
        EventSubject("invitation", _("invitations")),
        EventSubject("second_factor", _("second factors")),
        EventSubject("identity", _("linked identities")),
    )
