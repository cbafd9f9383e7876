"""The JSON columns of resources and prompts: validation, with messages for editors."""

from __future__ import annotations

import base64
import binascii
import re

from django.utils.translation import gettext as _

from sessions_app.protocol.json import Json
from tools_catalog.backends import offered
from tools_catalog.call.content import REQUIRED_MEMBERS

_ARGUMENT_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_ARGUMENT_MEMBERS = {"name", "title", "description", "required"}
_ANNOTATIONS = {"audience", "priority", "lastModified"}
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?")
_MOST_ENUMERATED = 10_000


def check_object(value: Json) -> None:
    if not isinstance(value, dict):
        raise ValueError(_("This must be a JSON object."))


def check_completions(value: Json, variables: set[str]) -> None:
    """Each variable's values: a list of texts, or a registered function."""
    check_object(value)
    for name, source in value.items():
        if name not in variables:
            raise ValueError(
                _("Unknown variable %(name)r. Variables: %(known)s")
                % {"name": name, "known": ", ".join(sorted(variables)) or "-"}
            )
        if isinstance(source, list):
            if len(source) > _MOST_ENUMERATED or not all(isinstance(word, str) for word in source):
                raise ValueError(
                    _("%(name)s: enter at most %(most)d strings.") % {"name": name, "most": _MOST_ENUMERATED}
                )
        elif not isinstance(source, dict) or source.keys() != {"function"}:
            raise ValueError(_('%(name)s: enter a list of strings, or {"function": …}.') % {"name": name})
        elif source["function"] not in offered.completions:
            raise ValueError(
                _("No function named %(name)r is registered. Registered: %(known)s")
                % {"name": source["function"], "known": ", ".join(sorted(offered.completions)) or "-"}
            )


def check_icons(value: Json) -> None:
    """MCP 2025-11-25, icons: https or data URIs."""
    if not isinstance(value, list):
        raise ValueError(_("This must be a JSON list."))
    for icon in value:
        source = icon.get("src") if isinstance(icon, dict) else None
        if not isinstance(source, str) or not source.startswith(("https://", "data:image/")):
            raise ValueError(_("An icon needs src, an address that begins with https:// or data:image/."))
        if icon.keys() - {"src", "mimeType", "sizes", "theme"}:
            raise ValueError(_("An icon has only src, mimeType, sizes and theme."))
        sizes = icon.get("sizes", [])
        if not isinstance(sizes, list) or not all(isinstance(size, str) for size in sizes):
            raise ValueError(_('sizes must be a list of strings, such as ["48x48"].'))
        if icon.get("theme", "light") not in ("light", "dark") or not isinstance(icon.get("mimeType", ""), str):
            raise ValueError(_("theme must be light or dark, mimeType a string."))


def check_annotations(value: Json, *, is_foreign: bool = False) -> None:
    """Check annotations of content. Those of a foreign resource may have members that nobody knows here."""
    check_object(value)
    if not is_foreign and (unknown := sorted(value.keys() - _ANNOTATIONS)):
        raise ValueError(
            _("Unknown annotation %(name)r. Annotations: %(known)s")
            % {"name": unknown[0], "known": ", ".join(sorted(_ANNOTATIONS))}
        )
    audience = value.get("audience", [])
    if not isinstance(audience, list) or not all(role in ("user", "assistant") for role in audience):
        raise ValueError(_("audience must be a list of user and assistant."))
    priority = value.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        raise ValueError(_("priority must be a number from 0 to 1."))
    moment = value.get("lastModified", "2026-01-01")
    if not isinstance(moment, str) or not _MOMENT.fullmatch(moment):
        raise ValueError(_("lastModified must be a timestamp, such as 2026-01-31T12:00:00Z."))


def check_arguments(value: Json, *, is_foreign: bool = False) -> set[str]:
    """Return the names of a prompt's arguments. Those of a foreign prompt may have members that nobody knows here."""
    if not isinstance(value, list):
        raise ValueError(_("This must be a JSON list."))
    names: set[str] = set()
    for argument in value:
        name = argument.get("name") if isinstance(argument, dict) else None
        if not isinstance(name, str) or not _ARGUMENT_NAME.fullmatch(name):
            raise ValueError(_("An argument needs a name: 1 to 64 of A-Z a-z 0-9 _ . -"))
        if name in names:
            raise ValueError(_("The argument %(name)s appears twice.") % {"name": name})
        names.add(name)
        is_odd = bool(argument.keys() - _ARGUMENT_MEMBERS) and not is_foreign
        if is_odd or not isinstance(argument.get("required", False), bool):
            raise ValueError(_("An argument has only name, title, description and required (true or false)."))
        if not all(isinstance(argument.get(text, ""), str) for text in ("title", "description")):
            raise ValueError(_("An argument has only name, title, description and required (true or false)."))
    return names


def check_messages(value: Json) -> None:
    """A message is {role, content}; content is a text, or a content block of MCP."""
    if not isinstance(value, list):
        raise ValueError(_("This must be a JSON list."))
    for message in value:
        if not isinstance(message, dict) or message.keys() != {"role", "content"}:
            raise ValueError(_("A message has only role and content."))
        if message["role"] not in ("user", "assistant"):
            raise ValueError(_("The role of a message must be user or assistant."))
        if not isinstance(message["content"], str):
            _check_block(message["content"])


def _check_block(block: Json) -> None:
    kind = block.get("type") if isinstance(block, dict) else None
    members = REQUIRED_MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None:
        raise ValueError(
            _("Content must be a string or a block of type %(known)s.") % {"known": ", ".join(REQUIRED_MEMBERS)}
        )
    for member in members:
        wanted: type = dict if member == "resource" else str
        if not isinstance(block.get(member), wanted):
            raise ValueError(_("A block of type %(kind)s needs %(member)s.") % {"kind": kind, "member": member})
    if kind in ("image", "audio"):
        _check_base64(block["data"])
    if kind == "resource":
        inner = block["resource"]
        if not isinstance(inner.get("uri"), str) or not isinstance(inner.get("text", inner.get("blob")), str):
            raise ValueError(_("An embedded resource needs uri, and text or blob."))
        if not isinstance(inner.get("mimeType"), str):
            raise ValueError(_("An embedded resource needs mimeType."))
        if "blob" in inner:
            _check_base64(inner["blob"])


def _check_base64(text: str) -> None:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(_("This is not base64.")) from None
