"""The host's functions in the catalogue: each start brings them there as they are in the code."""

from __future__ import annotations

import logging

from django.core.exceptions import ImproperlyConfigured

from mcphub.process import first_run
from tools_catalog.backends import python
from tools_catalog.bundles import bundle

logger = logging.getLogger(__name__)

_REASON = "the project's code"
_SHIPPED = ("tools_catalog.packs.", "invocations.", "mcphub.")


def register_own_tools() -> None:
    """Bring every registered function of the host's applications into the catalogue; other tools stay as they are.

    What an operator decided about a tool (switched off, groups, limits) stays, too. Raises ImproperlyConfigured for
    a tool that the catalogue does not take.
    """
    with first_run.one_at_a_time():
        load_own_tools()


def load_own_tools() -> None:
    """Do the work of `register_own_tools` where no other process prepares the same database."""
    own = sorted(name for name in python.registry if not name.startswith(_SHIPPED))
    tools = [{"backend": "python", "configuration": {"function": name}} for name in own]
    report = bundle.load({"format": bundle.FORMAT, "tools": tools}, reason=_REASON)
    if report.refused:
        name, why = report.refused[0]
        raise ImproperlyConfigured(f"The hub cannot take the tool {name}: {why}")
    for name in [*report.created, *report.changed]:
        logger.info("The catalogue has %s as it is in the code", name)
