"""The body of a provider's error, in whatever shape: its code, type, parameter and words. Pure.

Shapes seen: OpenAI's object, the same in an array (Google), a text in its place (Ollama, LM Studio), gateways' own
(`error_msg`, `detail`, `errors`, `msg`), errors of an error as JSON within its words (LiteLLM, OpenRouter), HTML, text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

_DEEPEST = 6
_WORDS = ("message", "error_msg", "errorMessage", "error_message", "msg", "Message", "detail", "reason", "title")
_INNER = ("error", "errors", "detail", "message", "fault", "base_resp", "innererror")
_CODES = ("error_code", "code", "errorCode", "status_code", "status")
_TAG = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1\s*>", re.IGNORECASE | re.DOTALL)
_EMBEDDED = re.compile(r"[\[{].*[\]}]", re.DOTALL)


@dataclass(slots=True)
class ErrorWords:
    code: str = ""
    type: str = ""
    message: str = ""
    param: str | None = None


def read(body: bytes) -> ErrorWords:
    """Return the message and codes of a body; all are empty if it has none."""
    text = body.decode("utf-8", "replace").strip()
    value = _parsed(text)
    if value is None:
        return ErrorWords(message=_prose(text))
    found = ErrorWords()
    for layer in _layers(value, 0):
        _take(found, layer)
    return found


def _layers(value: Json, depth: int) -> Iterator[Json]:
    """Yield the objects and texts of an error, the innermost first: it describes the fault best."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for each in value[:5]:
            yield from _layers(each, depth + 1)
    elif isinstance(value, str):
        inner = _embedded(value)
        if inner is not None:
            yield from _layers(inner, depth + 1)
        yield value
    elif isinstance(value, dict):
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and metadata.get("raw"):
            yield from _layers(metadata["raw"], depth + 1)
        for name in _INNER:
            inner = value.get(name)
            if isinstance(inner, dict | list) or (isinstance(inner, str) and _embedded(inner) is not None):
                yield from _layers(inner, depth + 1)
        yield value


def _take(found: ErrorWords, layer: Json) -> None:
    """Fill in members that an inner layer lacks."""
    if isinstance(layer, str):
        found.message = found.message or layer
        return
    if not isinstance(layer, dict):
        return
    codes = [layer.get(name) for name in _CODES]
    code = next((each for each in codes if isinstance(each, str | int) and not isinstance(each, bool) and each), "")
    found.code = found.code or str(code)
    kind = layer.get("type")
    found.type = found.type or (kind if isinstance(kind, str) and kind != "error" else "")
    param = layer.get("param")
    found.param = found.param or (param if isinstance(param, str) and param else None)
    if not found.message:
        found.message = _words(layer)


def _words(layer: dict[str, Json]) -> str:
    words = next((layer[name] for name in (*_WORDS, "error") if isinstance(layer.get(name), str) and layer[name]), "")
    place = layer.get("loc")
    if words and isinstance(place, list):
        return f"{'.'.join(map(str, place))}: {words}"
    return str(words)


def _embedded(text: str) -> Json:
    """Return the object or array that a text holds, where it has words of its own; else None."""
    match = _EMBEDDED.search(text) if len(text) < 100_000 else None
    value = _parsed(match.group()) if match is not None else None
    is_error = isinstance(value, dict) and value.keys() & {*_WORDS, *_INNER, "error"}
    is_list = isinstance(value, list) and bool(value) and isinstance(value[0], dict)
    return value if is_error or is_list else None


def _parsed(text: str) -> Json:
    try:
        value = json.loads(text.encode("utf-8", "replace"))
    except ParseError:
        return None
    return value if isinstance(value, dict | list | str) else None


def _prose(text: str) -> str:
    """Return the words of a page or a text."""
    if "<" not in text:
        return text
    titles = [_TAG.sub(" ", match[2]) for match in _TITLE.finditer(text)]
    words = next((each for each in titles if each.strip()), "") or _TAG.sub(" ", text)
    return html.unescape(words)
