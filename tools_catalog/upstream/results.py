"""An upstream's answer, checked before it is relayed: its outer form, as published by MCP. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sessions_app.protocol import errors

Json = Any

_TEXTS: Final = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name"),
}
"""Kind of a content block -> the members that are texts in it."""


def result_of(message: dict[str, Json], error_of: Callable[[int, str, Json], Exception]) -> dict[str, Json]:
    """Return the result of a response, as it came. Raises ResultInvalid, and the result of `error_of` for an error."""
    error = message.get("error")
    if error is not None:
        code, words = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
        if not isinstance(code, int) or not isinstance(words, str):
            raise errors.ResultInvalid("The upstream's error is none of JSON-RPC.")
        raise error_of(code, words, error.get("data"))
    result = message.get("result")
    if not isinstance(result, dict):
        raise errors.ResultInvalid("The upstream's answer has no result.")
    check(result)
    return result


def check(result: dict[str, Json]) -> None:
    """Raise ResultInvalid where a client would stumble over the result. Members that nobody knows pass.

    Members that are null are left out: .NET and Java write so what is not there.
    """
    if not isinstance(result.get("resultType", "complete"), str):
        _leave_out(result, "resultType")
    if not isinstance(result.get("isError", False), bool):
        _leave_out(result, "isError")
    if not isinstance(result.get("_meta", {}), dict):
        _leave_out(result, "_meta")
    if result.get("structuredContent", True) is None:
        _leave_out(result, "structuredContent")
    content = result.get("content")
    if content is None:
        return
    if not isinstance(content, list):
        raise _invalid("content")
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            raise _invalid("content")
        for name in _TEXTS.get(kind, ()):
            if not isinstance(block.get(name), str):
                raise _invalid(f"content: {name} of {kind}")
        if kind == "resource" and not is_contents(block.get("resource")):
            raise _invalid("content: resource")


def _leave_out(result: dict[str, Json], name: str) -> None:
    if result[name] is not None:
        raise _invalid(name)
    del result[name]


def is_contents(value: Json) -> bool:
    """Return whether it is a resource's content: a URI with text or base64."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("uri"), str)
        and (isinstance(value.get("text"), str) or isinstance(value.get("blob"), str))
    )


def _invalid(where: str) -> errors.ResultInvalid:
    return errors.ResultInvalid(f"The upstream's result breaks the protocol: {where}.")
