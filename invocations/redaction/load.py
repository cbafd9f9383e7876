"""Reads the redaction policy that is in force."""

from __future__ import annotations

import logging

from django.conf import settings

from invocations.redaction.models import McpRedactionRule
from invocations.redaction.places import parse
from invocations.redaction.policy import HEADER, Policy, Rule

logger = logging.getLogger(__name__)


def load() -> Policy:
    """Give the policy. A rule that cannot be used, which only SQL by hand can make, is logged and left out."""
    rules: list[Rule] = []
    for row in McpRedactionRule.objects.filter(enabled=True):
        rule = row.rule()
        try:
            if rule.kind != HEADER:
                parse(rule.place)
        except ValueError:
            logger.exception("The redaction rule %s cannot be used", row.pk)
            continue
        rules.append(rule)
    return Policy(rules, settings.MCPHUB_ENCRYPTION_KEYS)
