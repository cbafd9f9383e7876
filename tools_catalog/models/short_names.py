"""Short names of rows that stand in addresses, tool names and commands: connections, services, toolsets, profiles."""

from __future__ import annotations

import re

from django.core.validators import RegexValidator
from django.utils.translation import gettext_lazy as _

SHORT_NAME = re.compile(r"^[a-z0-9][a-z0-9_-]{0,31}\Z")
check_short_name = RegexValidator(SHORT_NAME, _("Use 1 to 32 of a-z 0-9 _ -, beginning with a letter or digit."))
