"""Examples of skills for the OpenAPI document, as people would send and get them."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.rest.sent import DIGEST, REASON
from sessions_app.protocol.json import Json

_TEXT = "---\nname: refunds\ndescription: How to refund an order.\n---\nAsk for the order number first.\n"
_SKILL: Mapping[str, Json] = {"path": "refunds", "text": _TEXT, "enabled": True, "groups": ["support"]}
REQUESTS: Mapping[str, Json] = {"SkillRequest": _SKILL, "PatchedSkillRequest": {"enabled": False, "reason": REASON}}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "Skill": {
        "path": "refunds",
        "uri": "skill://refunds/SKILL.md",
        "description": "How to refund an order.",
        "frontmatter": {"name": "refunds", "description": "How to refund an order."},
        "digest": DIGEST,
    },
    "SkillFile": {"path": "SKILL.md", "digest": DIGEST, "media_type": "text/markdown"},
}
