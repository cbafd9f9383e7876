"""Changes of the feature's table that the database itself announces."""

from sessions_app.bus import TOOLS_CHANGED
from sessions_app.kit.triggers import Announce

RULES = (Announce("tools_catalog_mcppolicyrule", TOOLS_CHANGED),)
