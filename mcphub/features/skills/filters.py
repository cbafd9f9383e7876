"""The filters of the list of skills, in the console and over REST."""

from __future__ import annotations

from sessions_app.kit.lists.filters import ListFilter, YesOrNo

SKILL_FILTERS: tuple[ListFilter, ...] = (YesOrNo(name="enabled", label=""),)
