"""Changes of the feature's tables that the database itself announces."""

from sessions_app.bus import TOOLS_CHANGED
from sessions_app.kit.triggers import Announce

RULES = (Announce("call_examples_toolexamples", TOOLS_CHANGED),)
