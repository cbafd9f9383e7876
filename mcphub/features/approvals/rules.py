"""Changes of approval policies that the database itself announces."""

from sessions_app.kit.triggers import Announce

SUBJECT = "approvals_changed"

RULES = (Announce("invocations_mcptoolapproval", SUBJECT),)
