"""How the configuration of an HTTP tool and the arguments of a call become one request.

Pure: nothing is sent here. Scheme, host, port and the literal parts of the path are fixed when the
configuration is parsed; an argument can fill a path segment, a query value, a header value or the body, and
is encoded so that it stays inside. Secrets are resolved while rendering and are in no configuration.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

import httpx2

from sessions_app.protocol import errors
from tools_catalog.backends.http import styles
from tools_catalog.backends.http.styles import scalar_text
from tools_catalog.bindings import Destination, origin_of
from tools_catalog.call.base import Json
from tools_catalog.secrets import SecretError

Secrets = Callable[[str, Destination], str]
"""Gives the secret of a name for a destination.

Raises LookupError for one that is not set, SecretError for a damaged one, ExecutionError for a foreign destination.
"""

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_WITH_USUAL = re.compile(r"(\{[^{}|]+)\|=([0-9]{1,19})\}")
"""A number alone: a credential would be no secret here."""
_SECRET = "secret:"  # noqa: S105 - the marker of a reference, not a secret
_BASIC = "basic:"
_UNSAFE_IN_PATH = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE_IN_HEADER = re.compile(r"[^\x20-\x7e\t]")
_DECODINGS_TRIED = 3
"""How many layers of percent-encoding servers and proxies are assumed to take off."""


@dataclass(frozen=True, slots=True)
class Template:
    """Text with `{argument}` and `{secret:NAME}` in it, split once. `{{` and `}}` are braces.

    `{+argument}` is several segments of a path, `{argument|style}` a list or an object in a style (`styles.py`).
    """

    parts: tuple[str | tuple[str, str], ...]
    place: str = ""
    """Where its secrets go: `headers.NAME`, `query.NAME`, `body.…`."""
    usual: str | None = None
    """The text that is sent in the query if the argument is absent: `25` of `{limit|=25}`."""

    @classmethod
    def parse(
        cls,
        text: str,
        where: str,
        *,
        allow_secrets: bool = True,
        allow_basic: bool = False,
        allowed: frozenset[str] = frozenset(),
    ) -> Template:
        """Raises ValueError, naming `where`, for braces that are no placeholder. `allowed` are the styles of the place.

        `{basic:NAME}` is the secret `user:password` as HTTP's Basic scheme sends it (RFC 7617).
        """
        parts: list[str | tuple[str, str]] = []
        literal, end = "", 0
        for match in [*_PLACEHOLDER.finditer(text), None]:
            between = text[end : match.start()] if match is not None else text[end:]
            if "{" in between or "}" in between:
                raise ValueError(f"{where}: a brace that is not part of a {{placeholder}}. Write {{{{ for a brace.")
            literal += between
            if match is not None and match[1] is None:
                literal += match[0][0]
            elif literal:
                parts.append(literal)
                literal = ""
            if match is None:
                break
            end = match.end()
            name = match[1]
            if name is None:
                continue
            if name.startswith((_SECRET, _BASIC)):
                parts.append(_reference(name, where, allow_secrets=allow_secrets, allow_basic=allow_basic))
            elif name.startswith("+"):
                if text != match[0] or allowed != styles.IN_PATH:
                    raise ValueError(f"{where}: {{{name}}} stands alone, between two slashes of the path.")
                parts.append(("segments", name[1:]))
            else:
                parts.append(_styled(name, where, allowed) or ("argument", name))
        if allowed & styles.IN_PAIRS - {styles.JSON} and len(parts) > 1 and any(_is_style(part) for part in parts):
            raise ValueError(f"{where}: a placeholder with a style stands alone.")
        return cls(tuple(parts), where)

    @property
    def arguments(self) -> Iterator[str]:
        return (part[1] for part in self.parts if isinstance(part, tuple) and part[0] not in ("secret", "basic"))

    @property
    def secrets(self) -> Iterator[str]:
        return (part[1] for part in self.parts if isinstance(part, tuple) and part[0] in ("secret", "basic"))

    @property
    def is_several(self) -> bool:
        return any(isinstance(part, tuple) and part[0] == "segments" for part in self.parts)

    @property
    def sole_argument(self) -> str | None:
        """The argument's name when the template is nothing but its placeholder."""
        if len(self.parts) == 1 and isinstance(self.parts[0], tuple) and self.parts[0][0] == "argument":
            return self.parts[0][1]
        return None

    @property
    def sole_style(self) -> tuple[str, str] | None:
        """Style and argument when the template is nothing but a placeholder with a style."""
        part = self.parts[0] if len(self.parts) == 1 else ""
        return part if isinstance(part, tuple) and _is_style(part) else None

    def pairs(self, name: str, values: Values) -> Iterator[tuple[str, str]]:
        """Return its encoded pairs in a query, a form or a cookie of that name; none if an argument is absent.

        Raises UnicodeEncodeError.
        """
        if self.sole_style is not None:
            style, argument = self.sole_style
            value = values.arguments.get(argument)
            yield from () if value is None else styles.pairs(style, name, value)
            return
        sole = self.sole_argument
        value = values.arguments.get(sole) if sole is not None else None
        if isinstance(value, list):
            yield from ((styles.encoded(name), styles.encoded(item)) for item in value if item is not None)
            return
        filled = self.fill(values, lambda _, item: scalar_text(item))
        if filled is not None:
            yield styles.encoded(name), styles.encoded(filled)
        elif self.usual is not None:
            yield styles.encoded(name), styles.encoded(self.usual)

    def fill(self, values: Values, encode: Callable[[str, Json], str]) -> str | None:
        """Return the text, or None when an argument is absent. `encode(name, value)` makes text of a value."""
        if any(values.arguments.get(name) is None for name in self.arguments):
            return None
        return "".join(
            part
            if isinstance(part, str)
            else values.secret(part[1], self.place)
            if part[0] == "secret"
            else values.basic(part[1], self.place)
            if part[0] == "basic"
            else encode(part[1], values.arguments[part[1]])
            if part[0] in ("argument", "segments")
            else styles.joined(part[0], part[1], values.arguments[part[1]], partial(encode, part[1]))
            for part in self.parts
        )


def _reference(name: str, where: str, *, allow_secrets: bool, allow_basic: bool) -> tuple[str, str]:
    if not allow_secrets:
        raise ValueError(f"{where}: a secret must not stand here.")
    if name.startswith(_BASIC) and not allow_basic:
        raise ValueError(f"{where}: {{basic:NAME}} stands in headers.")
    kind, _, secret = name.partition(":")
    return kind, secret


class Values:
    """The arguments of one call and the secrets it used, which the answer is searched for."""

    def __init__(self, arguments: dict[str, Json], secret: Secrets, to: Destination) -> None:
        self.arguments = arguments
        self._to = to
        self.used_secrets: list[str] = []
        self._secret = secret

    def secret(self, name: str, place: str) -> str:
        try:
            value = self._secret(name, self._to.at(place))
        except (LookupError, SecretError) as exc:
            raise errors.ExecutionError(
                f"The secret '{name}' of this tool is not set or cannot be read. Tell the operator.", secret=name
            ) from exc
        self.used_secrets.append(value)
        return value

    def basic(self, name: str, place: str) -> str:
        """Return a secret `user:password` in base64."""
        value = self.secret(name, place)
        coded = b64encode(value.encode("utf-8", "surrogatepass")).decode("ascii")
        self.used_secrets += [coded, value.partition(":")[2]]
        return coded


_ANY, _SEVERAL = "{}", "{+}"
"""Segments with a placeholder; no literal one has braces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlTemplate:
    """A URL with a fixed origin, and optional placeholders in path segments and query values."""

    origin: str
    host: str
    """As the request will name it: ASCII, in lower case."""
    segments: tuple[Template, ...]
    query: tuple[tuple[str, Template], ...]

    @classmethod
    def parse(cls, text: str, query: dict[str, str], base: str = "") -> UrlTemplate:
        """Read a URL; with `base`, the address of a service, the part after it. Raises ValueError."""
        split, host = _split(_joined(base, text) if base else text)
        segments = tuple(map(_url_segment, split.path.split("/")[1:]))
        in_url = parse_qsl(split.query, keep_blank_values=True)
        pairs = [(name, value, "url") for name, value in in_url]
        pairs += [(name, value, f"query.{name}") for name, value in query.items()]
        for name, _, where in pairs:
            if "{" in name or "}" in name:
                raise ValueError(f"{where}: the name of a query parameter must be literal.")
        return cls(
            origin=f"{split.scheme}://{split.netloc}",
            host=host,
            segments=segments,
            query=tuple(
                (name, replace(_in_query(value, where), place=f"query.{name}")) for name, value, where in pairs
            ),
        )

    @property
    def plain_origin(self) -> str:
        """The origin as bindings of secrets name it."""
        return origin_of(self.origin)

    def meets(self, other: UrlTemplate) -> bool:
        """Return whether both may request one address, whatever the query: a placeholder may stand for any segment."""
        if self.plain_origin != other.plain_origin:
            return False
        mine, its = ([*filter(None, map(_plain_segment, each.segments))] for each in (self, other))
        for one, two in zip(mine, its, strict=False):
            if _SEVERAL in (one, two):
                return True
            if _ANY not in (one, two) and one != two:
                return False
        longer = max(mine, its, key=len)[min(len(mine), len(its)) :]
        return not longer or longer == [_SEVERAL]

    @property
    def templates(self) -> Iterator[Template]:
        yield from self.segments
        yield from (template for _, template in self.query)

    def render(self, values: Values) -> httpx2.URL:
        """Return the URL of one call. Raises `ArgumentsInvalid` for a value that cannot be part of it."""
        path = "".join(f"/{self._segment(segment, values)}" for segment in self.segments)
        try:
            pairs = written_pairs(self.query, values)
            query = "&".join(f"{name}={value}" for name, value in pairs)
            url = httpx2.URL(f"{self.origin}{path or '/'}{'?' + query if query else ''}")
        except (UnicodeEncodeError, httpx2.InvalidURL) as exc:
            raise errors.ArgumentsInvalid("An argument cannot be written into the URL.") from exc
        # The last word, should the URL library ever read what was built here differently.
        if url.raw_host != self.host.encode() or url.raw_path.partition(b"?")[0] != (path or "/").encode("ascii"):
            raise errors.ArgumentsInvalid("An argument cannot be written into the path of the URL.")
        return url

    @staticmethod
    def _segment(segment: Template, values: Values) -> str:
        filled = segment.fill(values, _several if segment.is_several else _path_text)
        if filled is None:
            missing = ", ".join(name for name in segment.arguments if values.arguments.get(name) is None)
            raise errors.ArgumentsInvalid(f"The argument {missing} is part of the URL. Add it.")
        for name in segment.arguments:
            if filled == "" or unquote(filled) in (".", ".."):  # of several each was looked at
                raise errors.ArgumentsInvalid(f"The argument {name} cannot be empty, '.' or '..'.")
        return filled


def _joined(base: str, text: str) -> str:
    """Return the address of a service with what a tool adds to it."""
    if "{" in base or "}" in base or "?" in base:
        raise ValueError("url: the address of a service is literal, and has no query.")
    if text and not text.startswith("/"):
        raise ValueError("url: of a service's tool it begins with / and is added to the service's address.")
    return base.rstrip("/") + text if text else base


def _split(text: str) -> tuple[SplitResult, str]:
    """Return the parts of a URL whose origin is literal, and its host as a request names it."""
    if re.search(r"[\x00-\x20\x7f\\]", text):
        raise ValueError("url: spaces, control characters and backslashes are not allowed.")
    try:
        split = urlsplit(text)
        port = split.port
    except ValueError as exc:
        raise ValueError(f"url: {exc}.") from exc
    if split.scheme not in ("http", "https"):
        raise ValueError("url: must start with https:// or http://.")
    if "{" in split.netloc or "}" in split.netloc:
        raise ValueError("url: scheme, host and port must be literal; placeholders belong to the path.")
    if "@" in split.netloc:
        raise ValueError("url: must not contain a user name or password. Use a header with a secret.")
    if not split.hostname:
        raise ValueError("url: has no host.")
    if split.fragment or text.endswith("#"):
        raise ValueError("url: must not have a fragment.")
    if port == 0:
        raise ValueError("url: the port is not valid.")
    try:
        return split, httpx2.URL(f"{split.scheme}://{split.netloc}").raw_host.decode("ascii")
    except (UnicodeError, httpx2.InvalidURL) as exc:
        raise ValueError("url: the host is not valid.") from exc


def _url_segment(text: str) -> Template:
    segment = Template.parse(text, "url", allow_secrets=False, allowed=styles.IN_PATH)
    if any(isinstance(part, str) and ("{" in part or "}" in part) for part in segment.parts):
        raise ValueError("url: a brace cannot be part of the path.")
    literal = segment.parts[0] if len(segment.parts) == 1 else None
    if isinstance(literal, str) and unquote(literal) in (".", ".."):
        raise ValueError("url: the path must not contain '.' or '..' segments.")
    return segment


def written_pairs(
    templates: Iterable[tuple[str, Template]], values: Values, taken: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """Return names and values of a query, a form or cookies, encoded; raises UnicodeEncodeError.

    An object with member names of its own sets none that the configuration sets, nor one of `taken`: a key may be
    there. Raises `ArgumentsInvalid`.
    """
    given = [*templates]
    fixed = {styles.encoded(name) for name in (*(name for name, _ in given), *taken)}
    found: list[tuple[str, str]] = []
    for name, template in given:
        pairs = [*template.pairs(name, values)]
        style, argument = template.sole_style or ("", "")
        if style == "form*" and isinstance(values.arguments.get(argument), dict):
            own = (fixed - {styles.encoded(name)}) & {key for key, _ in pairs}
            if own:
                raise errors.ArgumentsInvalid(
                    f"The argument {argument} cannot set {min(own)[:100]}, which this tool sets itself. Leave it out."
                )
        found += pairs
    return found


def header_text(name: str, template: Template, values: Values) -> str | None:
    """Return a header's value, None when its argument is absent. Raises `ArgumentsInvalid` for line breaks."""

    def encode(argument: str, value: Json) -> str:
        text = scalar_text(value)
        if _UNSAFE_IN_HEADER.search(text):
            raise errors.ArgumentsInvalid(
                f"The argument {argument} is sent as a header and may hold only visible ASCII characters."
            )
        return text

    filled = template.fill(values, encode)
    if filled is not None and _UNSAFE_IN_HEADER.search(filled):
        raise errors.ExecutionError(f"A secret of this tool cannot be sent in the header {name}.")
    return filled


def _in_query(text: str, where: str) -> Template:
    match = _WITH_USUAL.fullmatch(text)
    if match is None or match[1].startswith((f"{{{_SECRET}", f"{{{_BASIC}", "{+")):
        return Template.parse(text, where, allowed=styles.IN_PAIRS)
    return replace(Template.parse(f"{match[1]}}}", where, allowed=styles.IN_PAIRS), usual=match[2])


def _styled(name: str, where: str, allowed: frozenset[str]) -> tuple[str, str] | None:
    """Return style and argument of `argument|style`; None for a name that has none."""
    argument, sign, style = name.rpartition("|")
    if not sign or style not in styles.STYLES:
        return None
    if style not in allowed:
        known = ", ".join(sorted(allowed)) or "none"
        raise ValueError(f"{where}: {{{name}}} has a style that is not written here. Styles of this place: {known}.")
    return style, argument


def _is_style(part: str | tuple[str, str]) -> bool:
    return isinstance(part, tuple) and part[0] in styles.STYLES


def _path_text(name: str, value: Json) -> str:
    if isinstance(value, (dict, list)):
        raise errors.ArgumentsInvalid(f"The argument {name} is part of the URL and must be text or a number.")
    text = scalar_text(value)
    seen = text
    for _ in range(_DECODINGS_TRIED):
        if _UNSAFE_IN_PATH.search(seen) or {".", ".."} & set(re.split(r"[/\\]", seen)):
            raise errors.ArgumentsInvalid(
                f"The argument {name} is part of the URL and may not hold '.' or '..' steps or control characters."
            )
        seen = unquote(seen)
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as exc:
        raise errors.ArgumentsInvalid(f"The argument {name} is not valid Unicode text.") from exc


def _several(name: str, value: Json) -> str:
    """Write `a/b/c` as segments, none of which is empty or a step."""
    if not isinstance(value, str):
        raise errors.ArgumentsInvalid(f"The argument {name} is part of the URL and must be text.")
    segments = value.strip("/").split("/")
    if "" in segments:
        raise errors.ArgumentsInvalid(f"The argument {name} is a path and may not hold empty parts.")
    return "/".join(_path_text(name, segment) for segment in segments)


def _plain_segment(segment: Template) -> str:
    """Return a literal segment as servers compare it, or a mark for one with a placeholder."""
    if any(not isinstance(part, str) for part in segment.parts):
        return _SEVERAL if segment.is_several else _ANY
    return unquote("".join(str(part) for part in segment.parts))
