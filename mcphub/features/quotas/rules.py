"""Changes of quotas that the database itself announces."""

from sessions_app.kit.triggers import Announce

SUBJECT = "quotas_changed"

RULES = (Announce("invocations_mcpquota", SUBJECT),)
