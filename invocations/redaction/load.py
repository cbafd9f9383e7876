"""Reads the redaction policy that is in force."""

from __future__ import annotations

import logging

from django.conf import settings

from invocations.redaction.models import McpRedactionRule
from invocations.redaction.places import parse
from invocations.redaction.policy import FORM, HEADER, RedactionPolicy, RedactionRule
from sessions_app.kit.secret_forms import FORMS

logger = logging.getLogger(__name__)


def load() -> RedactionPolicy:
    """Return the policy. A rule that cannot be used, which only SQL by hand can make, is logged and left out."""
    rules: list[RedactionRule] = []
    for row in McpRedactionRule.objects.filter(enabled=True):
        rule = row.rule()
        try:
            if rule.kind == FORM:
                if rule.place not in FORMS:
                    raise ValueError(rule.place)
            elif rule.kind != HEADER:
                parse(rule.place)
        except ValueError:
            logger.exception("The redaction rule %s cannot be used", row.pk)
            continue
        rules.append(rule)
    return RedactionPolicy(rules, settings.MCPHUB_ENCRYPTION_KEYS)
