"""The settings of a project that the hub is added to. Runs inside its settings module, before Django is set up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

from mcphub import environment as env
from mcphub import feature_list, given

_FEATURES: Final = tuple(name for name, config in feature_list.known().items() if config.embeds)
_PACKAGE: Final = "mcphub.features."
APPS: Final = (
    "oauth2_provider",
    "sessions_app",
    "tools_catalog",
    "invocations",
    "mcphub",
    *(f"{_PACKAGE}{name}" for name in _FEATURES),
)
_DEFAULTS: Final = {
    "PUBLIC_URL": "http://127.0.0.1:8000/hub",
    "FEATURES": ",".join(_FEATURES),
    "FOLLOW_PEOPLE": True,
    "SIGN_IN": False,  # its pages are those of the hub's own project
    "MIGRATE": False,  # the host's `manage.py migrate` does it
}
_OF_HOST: Final = {
    "ALLOWED_HOSTS": "ALLOWED_HOSTS",
    "APPS": "INSTALLED_APPS",
    "BEHIND_PROXY": "SECURE_PROXY_SSL_HEADER",
    "DATABASE_URL": "DATABASES",
    "DEBUG": "DEBUG",
    "LOG_FORMAT": "LOGGING",
    "LOG_LEVEL": "LOGGING",
    "MAIL_URL": "EMAIL_HOST and its like",
    "SECRET_KEY_FILE": "SECRET_KEY",
}
"""Variables of the hub's own project -> the setting of Django that a host has in their place."""
_COPIED: Final = ("MCPHUB_", "HUB_", "OAUTH2_PROVIDER")


def add_hub(namespace: dict[str, Any]) -> None:
    """Add the hub to a settings module: `add_hub(globals())` as its last line.

    Adds the hub's applications that INSTALLED_APPS lacks, and `MCPHUB_…` settings from the environment and from the
    dict `MCPHUB`; the environment wins. No setting that the module has is changed. Raises ImproperlyConfigured.
    """
    values = {**_DEFAULTS, "DATA_DIR": _data_dir(namespace), **namespace.get("MCPHUB", {})}
    _check(values)
    given.take(values, secret_key=namespace.get("SECRET_KEY") or "set later")
    sys.modules.pop("mcphub.settings", None)
    from mcphub import settings as own

    unknown = sorted(name for name in values if not _is_known(name, own))
    if unknown:
        raise ImproperlyConfigured(
            f"MCPHUB has {', '.join(unknown)}, and the hub has no such setting. The settings are the variables of "
            "docs/operate/deployment.md without MCPHUB_."
        )
    if own.MCPHUB_SIGN_IN:
        raise ImproperlyConfigured(
            "MCPHUB has SIGN_IN, whose pages and documents need the hub's own project: clients would be sent to "
            "addresses that answer 404. Take SIGN_IN out; clients use keys."
        )
    for name, value in vars(own).items():
        if name.startswith(_COPIED):
            namespace.setdefault(name, value)
    namespace |= {"MCPHUB_EMBEDDED": True, "MCPHUB_FOLLOW_PEOPLE": env.flag("MCPHUB_FOLLOW_PEOPLE", True)}
    installed = namespace.setdefault("INSTALLED_APPS", [])
    namespace["INSTALLED_APPS"] = [*installed, *(app for app in wanted() if app not in installed)]


def wanted() -> list[str]:
    """Return the hub's applications that the host has: the core, and the features that FEATURES names."""
    on = {f"{_PACKAGE}{name}" for name in feature_list.on()}
    return [app for app in APPS if not app.startswith(_PACKAGE) or app in on]


def _data_dir(namespace: dict[str, Any]) -> Path:
    return Path(namespace.get("BASE_DIR", Path.cwd())) / "mcphub-data"


def _check(values: dict[str, Any]) -> None:
    for name, theirs in _OF_HOST.items():
        if name in values:
            raise ImproperlyConfigured(f"MCPHUB has {name}; in a project of yours {theirs} counts. Take {name} out.")
    if more := sorted(set(given.text_of(values["FEATURES"]).replace(",", " ").split()) - {*_FEATURES, "none"}):
        raise ImproperlyConfigured(
            f"MCPHUB names the features {', '.join(more)}, which need the hub's own project. Take FEATURES out."
        )


def _is_known(name: str, own: Any) -> bool:
    return hasattr(own, f"MCPHUB_{name}") or name in _DEFAULTS
