"""The filters of error groups, in the console and over REST."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from invocations.lists import completing
from mcphub.features.error_groups.models import ErrorGroup
from sessions_app.kit.lists.filters import During, ListFilter, OneOf, TextIs
from sessions_app.protocol.errors import INTERNAL_CODES

ERROR_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=ErrorGroup.State.choices),
    TextIs(name="tool", column="tool_name", label=_("tool (exact name)"), known=completing.tools),
    OneOf(
        name="error_code",
        label=_("error code"),
        key="code",
        parameter="code",
        choices=[(code, code) for code in sorted(INTERNAL_CODES)],
    ),
    During(name="seen", column="last_at", label="", key="time"),
)
