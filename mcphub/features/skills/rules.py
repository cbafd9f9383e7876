"""Changes of the feature's tables that the database itself announces: skills are among the resources of a process."""

from sessions_app.bus import RESOURCES_CHANGED
from sessions_app.kit.triggers import Announce

RULES = tuple(
    Announce(table, RESOURCES_CHANGED) for table in ("skills_skill", "skills_skill_groups", "skills_skill_toolsets")
)
