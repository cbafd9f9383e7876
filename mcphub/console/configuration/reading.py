"""The effective configuration of this process, by sections: values, their sources, and the line that changes each.

Reads what is in force and changes nothing. Secrets are masked where the values are read (`masking.py`).
"""

from __future__ import annotations

import re
import shutil
import socket
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import django
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from invocations.chain.models import AuditPolicy
from mcphub import feature_list, given
from mcphub.console.configuration.bounds import BOUNDS
from mcphub.console.configuration.variables import SECTIONS, VARIABLES, Variable
from mcphub.environment import LimitBound
from mcphub.parts import ConsoleSettings
from mcphub.process import membership
from sessions_app.kit.features import declared, installed
from sessions_app.models import ServerProcess
from sessions_app.protocol import revisions

if TYPE_CHECKING:
    from django.utils.functional import _StrOrPromise

_PLAIN: Final = re.compile(r"[\w./:@,+{}*-]*")
_SOURCES: Final[dict[given.Source, _StrOrPromise]] = {
    "default": gettext_lazy("Default"),
    "environment": gettext_lazy("Environment"),
    "flag": gettext_lazy("Flag of the command"),
    "host": gettext_lazy("MCPHUB in settings.py"),
}


@dataclass(frozen=True, slots=True)
class ShownSetting:
    """One line of the page. Either `line` changes it, in the environment, or the page at `link`."""

    name: str
    about: str
    value: str
    source: str
    is_changed: bool = False
    default: str = ""
    line: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class ShownSection:
    name: str
    title: str
    rows: Sequence[ShownSetting]

    @property
    def changed(self) -> int:
        return sum(row.is_changed for row in self.rows)

    def only_changed(self) -> ShownSection:
        return replace(self, rows=[row for row in self.rows if row.is_changed])


@dataclass(frozen=True, slots=True)
class ShownWorker:
    row: ServerProcess
    memory: str
    link: str
    is_this: bool
    is_other_version: bool


def sections(request: HttpRequest) -> list[ShownSection]:
    """Return all settings but the features, in the order of SECTIONS."""
    rows: dict[str, list[ShownSetting]] = {name: [] for name in SECTIONS}
    for name, row in _of_rows(request):
        rows[name].append(row)
    for each in VARIABLES:
        rows[each.section].append(_of_variable(each))
    for name, bound in settings.MCPHUB_LIMITS.bounds.items():
        section, about = BOUNDS[name]
        rows[section].append(_of_bound(name, str(about), bound))
    return [ShownSection(name, str(title), rows[name]) for name, title in SECTIONS.items()]


def _of_variable(each: Variable) -> ShownSetting:
    source, value = given.source(each.name), each.in_force
    example = each.example or ("0" if value else "1")
    return ShownSetting(
        each.name,
        str(each.about),
        shown(value),
        str(_SOURCES[source]),
        source != "default",
        line=_line(each.name, example),
    )


def _of_bound(name: str, about: str, bound: LimitBound) -> ShownSetting:
    source: given.Source = "default"
    if bound.variable:
        flag = given.source(name)
        source = flag if flag == "flag" else given.source(bound.variable)
    value, default = (with_unit(name, each) for each in (bound.value, bound.default))
    written = f"{bound.value:.0f}" if bound.value == int(bound.value) else f"{bound.value:g}"
    return ShownSetting(
        name,
        about,
        value,
        str(_SOURCES[source]),
        bool(bound.variable),
        default if value != default else "",
        _line("MCPHUB_LIMITS", settings.MCPHUB_LIMITS.line(**{name: written})),
    )


def _line(name: str, value: str) -> str:
    """Return the line for a file of the environment, as systemd and shells read it."""
    return f"{name}={value}" if _PLAIN.fullmatch(value) else f'{name}="{value}"'


def shown(value: object) -> str:
    """Return a value in the reader's language; empty where nothing is set."""
    if isinstance(value, bool):
        return _("on") if value else _("off")
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def with_unit(name: str, value: float) -> str:
    """Return a bound with the unit that its name ends in."""
    if name.endswith("_bytes"):
        return str(filesizeformat(value))
    figure = number_format(value, force_grouping=True) if value == int(value) else f"{value:g}"
    if name.endswith("_seconds"):
        return _("%(seconds)s s") % {"seconds": figure}
    if name.endswith("_hours"):
        return _("%(hours)s h") % {"hours": figure}
    if name.endswith("_days"):
        return _days(int(value))
    return figure


def _days(count: int) -> str:
    return ngettext("%(count)d day", "%(count)d days", count) % {"count": count}


# Set in the console ----------------------------------------------------------------------------------


_TABLES: Final = (
    ConsoleSettings(
        "egress",
        "tools_catalog_allowedhost",
        gettext_lazy("Private hosts that the hub may reach, besides those of the environment."),
    ),
)


def _of_rows(request: HttpRequest) -> Iterable[tuple[str, ShownSetting]]:
    """Return what people set in the console, each with its page, where the person may see it."""
    may = request.user.has_perm
    if may("invocations.view_auditpolicy"):
        yield "retention", _retention()
    for part in (*_TABLES, *declared(ConsoleSettings)):
        app, model = part.page.rsplit("_", 1)
        if may(f"{app}.view_{model}"):
            table = apps.get_model(app, model)
            named = {field.name for field in table._meta.fields}
            rows = table._default_manager.filter(**({"enabled": True} if "enabled" in named else {}))
            count = rows.order_by().count()
            title = str(capfirst(table._meta.verbose_name_plural))
            yield part.section, _in_console(title, str(part.about), number_format(count) if count else "", part.page)


def _retention() -> ShownSetting:
    policy = AuditPolicy.current()
    rows = _days(policy.rows_days) if policy.rows_days else _("for ever")
    value = _("Records: %(rows)s.") % {"rows": rows}
    if policy.bodies_days:
        value += " " + _("Arguments and results: %(days)s.") % {"days": _days(policy.bodies_days)}
    title, about = str(capfirst(policy._meta.verbose_name)), _("How long the audit log is kept.")
    source = _("Changed in the console") if policy.rows_days or policy.bodies_days else _("Default")
    link = reverse("admin:invocations_auditpolicy_changelist")
    return ShownSetting(title, about, value, source, source != _("Default"), link=link)


def _in_console(name: str, about: str, value: str, page: str) -> ShownSetting:
    source = _("Changed in the console") if value else _("Default")
    return ShownSetting(name, about, value, source, bool(value), link=reverse(f"admin:{page}_changelist"))


# Features --------------------------------------------------------------------------------------------


def features() -> list[ShownSetting]:
    """Return each optional part, whether it is on, and the line that switches it."""
    on = {config.feature for config in installed()}
    source = str(_SOURCES[given.source("MCPHUB_FEATURES")])
    found = []
    for name, config in feature_list.known().items():
        line = "" if config.always else _line("MCPHUB_FEATURES", " ".join(_switched(name, on)))
        about, value = str(config.verbose_name), shown(name in on)
        found.append(ShownSetting(name, about, value, source, name not in on, line=line))
    return found


def _switched(name: str, on: set[str]) -> list[str]:
    """Return the words of MCPHUB_FEATURES that switch one feature, and with it those that need it or that it needs."""
    known = feature_list.known()
    off = set(known) - on
    if name in on:
        grown = off | {name}
        while more := {each for each in known if set(known[each].requires) & grown} - grown:
            grown |= more
        off = grown
    else:
        needed = {name}
        while more := {each for one in needed for each in known[one].requires} - needed:
            needed |= more
        off -= needed
    return [f"-{each}" for each in sorted(off)]


# The hub itself --------------------------------------------------------------------------------------


def workers() -> list[ShownWorker]:
    """Return the processes that are alive: of all machines."""
    here = _this_process()
    return [
        ShownWorker(
            row,
            str(filesizeformat(row.memory_bytes)) if row.memory_bytes else "",
            reverse("admin:sessions_app_serverprocess_change", args=[row.pk]),
            row.pk == here,
            row.version != settings.MCPHUB_VERSION,
        )
        for row in membership.living().order_by("host", "started_at")[:256]
    ]


def _this_process() -> str:
    from mcphub.process import runtime

    hub = runtime.current()
    return hub.process_id if hub is not None else ""


def versions() -> list[tuple[str, str]]:
    return [
        (_("MCP Hub"), settings.MCPHUB_VERSION),
        (_("Newest MCP revision"), revisions.NEWEST),
        ("Python", sys.version.split()[0]),
        ("Django", django.get_version()),
        (connection.display_name, ".".join(map(str, connection.get_database_version()))),
        (_("Machine"), socket.gethostname()),
    ]


def disk() -> list[tuple[str, str]]:
    """Return the sizes of the database and of the disk with the data directory."""
    home: Path = settings.MCPHUB_DATA_DIR
    found = [(_("Database"), str(filesizeformat(_size_of_database())))]
    if home.is_dir():
        usage = shutil.disk_usage(home)
        words = _("%(free)s of %(total)s") % {"free": filesizeformat(usage.free), "total": filesizeformat(usage.total)}
        found.append((_("Free where %(folder)s is") % {"folder": home}, words))
    return found


def _size_of_database() -> int:
    if connection.vendor == "sqlite":
        name = str(settings.DATABASES["default"]["NAME"])
        return sum(path.stat().st_size for end in ("", "-wal") if (path := Path(name + end)).is_file())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_database_size(current_database())")
        return int(cursor.fetchone()[0])
