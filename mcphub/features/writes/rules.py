"""Changes of the feature's table that the database itself announces."""

from sessions_app.kit.triggers import Announce

SUBJECT = "writes_changed"

RULES = (Announce("writes_writestop", SUBJECT),)
