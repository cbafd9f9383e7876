"""Approvals: calls that wait for a person's yes, by a tool's own policy or a call rule, and the decision about them."""
