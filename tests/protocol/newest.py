"""Values as the newest revisions write them: whatever a tool, a resource or a prompt of today may say."""

from typing import Any

from hypothesis import strategies as st

from .strategies import SCALARS, TEXT

WORDS = st.text("abc é&", min_size=1, max_size=6)
URIS = st.sampled_from(["hub://x", "file:///a/b", "https://example.org/é"])
META = st.dictionaries(WORDS, SCALARS, max_size=2)
BASE64 = st.sampled_from(["", "AAAA", "/+8="])
OBJECT = st.dictionaries(WORDS, SCALARS, max_size=3)
ANY = SCALARS | st.lists(SCALARS, max_size=2) | OBJECT

ICON = st.fixed_dictionaries(
    {"src": st.just("data:image/png;base64,AAAA")},
    optional={
        "mimeType": st.just("image/png"),
        "sizes": st.just(["48x48", "any"]),
        "theme": st.sampled_from(["light", "dark"]),
    },
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        "audience": st.just(["user"]),
        "priority": st.sampled_from([0, 0.5, 1]),
        "lastModified": st.just("2026-07-28T00:00:00Z"),
    },
)
NAMED: dict[str, Any] = {"title": WORDS, "description": TEXT, "_meta": META, "icons": st.lists(ICON, max_size=2)}
ABOUT: dict[str, Any] = {**NAMED, "mimeType": WORDS, "annotations": ANNOTATIONS}

PROPERTY = st.just({"type": "string", "x-mcp-header": "Region"}) | st.booleans() | st.just({})


def schema(kinds: Any) -> Any:
    return st.fixed_dictionaries(
        {"type": kinds},
        optional={
            "properties": st.dictionaries(WORDS, PROPERTY, max_size=2),
            "required": st.lists(WORDS, max_size=2),
            "$schema": st.just("https://json-schema.org/draft/2020-12/schema"),
            "$defs": st.just({"a": {"$anchor": "b"}}),
            "additionalProperties": st.booleans(),
        },
    )


TOOL = st.fixed_dictionaries(
    {"name": WORDS, "inputSchema": schema(st.just("object"))},
    optional={
        **NAMED,
        "outputSchema": schema(st.sampled_from(["object", "array", "string"])) | st.just({"oneOf": [{}]}),
        "annotations": st.fixed_dictionaries({}, optional={"title": WORDS, "readOnlyHint": st.booleans()}),
        "execution": st.fixed_dictionaries({"taskSupport": st.sampled_from(["forbidden", "optional", "required"])}),
        "handler": WORDS,
    },
)
RESOURCE = st.fixed_dictionaries({"uri": URIS, "name": WORDS}, optional={**ABOUT, "size": st.integers(0, 2**40)})
TEMPLATE = st.fixed_dictionaries({"uriTemplate": st.just("hub://{x}"), "name": WORDS}, optional=ABOUT)
ARGUMENT = st.fixed_dictionaries(
    {"name": WORDS}, optional={"title": WORDS, "description": TEXT, "required": st.booleans()}
)
PROMPT = st.fixed_dictionaries({"name": WORDS}, optional={**NAMED, "arguments": st.lists(ARGUMENT, max_size=2)})
CONTENTS = st.fixed_dictionaries(
    {"uri": URIS, "text": TEXT}, optional={"mimeType": WORDS, "_meta": META}
) | st.fixed_dictionaries({"uri": URIS, "blob": BASE64}, optional={"mimeType": WORDS, "_meta": META})

_MARKED: dict[str, Any] = {"annotations": ANNOTATIONS, "_meta": META}
_DATA: dict[str, Any] = {"data": BASE64, "mimeType": WORDS}
TEXT_BLOCK = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}, optional=_MARKED)
MEDIA_BLOCK = st.fixed_dictionaries({"type": st.sampled_from(["image", "audio"]), **_DATA}, optional=_MARKED)
BLOCK = (
    TEXT_BLOCK
    | MEDIA_BLOCK
    | st.fixed_dictionaries({"type": st.just("resource"), "resource": CONTENTS}, optional=_MARKED)
    | st.builds(lambda resource: {"type": "resource_link", **resource}, RESOURCE)
)

_STATELESS: dict[str, Any] = {
    "resultType": st.just("complete"),
    "ttlMs": st.integers(0, 10**6),
    "cacheScope": st.sampled_from(["public", "private"]),
}
CALL_RESULT = st.fixed_dictionaries(
    {"content": st.lists(BLOCK, max_size=3), "resultType": st.just("complete")},
    optional={"structuredContent": ANY, "isError": st.booleans(), "_meta": META},
)
PROMPT_MESSAGE = st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": BLOCK})
PROMPT_RESULT = st.fixed_dictionaries(
    {"messages": st.lists(PROMPT_MESSAGE, max_size=3), "resultType": st.just("complete")},
    optional={"description": TEXT, "_meta": META},
)
READ_RESULT = st.fixed_dictionaries(
    {"contents": st.lists(CONTENTS, max_size=2), **_STATELESS}, optional={"_meta": META}
)
INITIALIZE = st.fixed_dictionaries(
    {
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "tools": st.just({"listChanged": True}),
                "resources": st.just({"listChanged": True, "subscribe": True}),
                "prompts": st.just({}),
                "logging": st.just({}),
                "completions": st.just({}),
                "experimental": st.just({"x": {}}),
                "tasks": st.just({"list": {}, "cancel": {}}),
                "extensions": st.just({"io.modelcontextprotocol/tasks": {}}),
            },
        ),
        "serverInfo": st.fixed_dictionaries(
            {"name": WORDS, "version": WORDS},
            optional={
                "title": WORDS,
                "description": TEXT,
                "icons": st.lists(ICON, max_size=1),
                "websiteUrl": st.just("https://example.org"),
            },
        ),
    },
    optional={"instructions": TEXT},
)
PROGRESS = st.fixed_dictionaries(
    {"progressToken": WORDS | st.integers(0, 9), "progress": st.floats(0, 100)},
    optional={"total": st.just(100), "message": TEXT},
)

_SAMPLED = TEXT_BLOCK | MEDIA_BLOCK
SAMPLING = st.fixed_dictionaries(
    {
        "maxTokens": st.integers(1, 1000),
        "messages": st.lists(
            st.fixed_dictionaries(
                {
                    "role": st.sampled_from(["user", "assistant"]),
                    "content": _SAMPLED | st.lists(_SAMPLED, min_size=1, max_size=2),
                }
            ),
            min_size=1,
            max_size=2,
        ),
    },
    optional={
        "systemPrompt": TEXT,
        "temperature": st.just(0.5),
        "includeContext": st.just("none"),
        "stopSequences": st.just(["."]),
        "toolChoice": st.just({"mode": "auto"}),
        "modelPreferences": st.just({"hints": [{"name": "x"}], "costPriority": 0.5}),
        "metadata": st.just({"a": 1}),
    },
)

_LABELS: dict[str, Any] = {"title": WORDS, "description": TEXT}
_TITLED = st.just([{"const": "a", "title": "A"}, {"const": "b", "title": "B"}])
ASKED = (
    st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            **_LABELS,
            "minLength": st.just(1),
            "maxLength": st.just(9),
            "format": st.sampled_from(["email", "uri", "date", "date-time"]),
            "default": WORDS,
        },
    )
    | st.fixed_dictionaries(
        {"type": st.sampled_from(["number", "integer"])},
        optional={**_LABELS, "minimum": st.just(0), "maximum": st.just(9), "default": st.just(3)},
    )
    | st.fixed_dictionaries({"type": st.just("boolean")}, optional={**_LABELS, "default": st.booleans()})
    | st.fixed_dictionaries(
        {"type": st.just("string"), "enum": st.just(["a", "b"])}, optional={**_LABELS, "default": st.just("a")}
    )
    | st.fixed_dictionaries(
        {"type": st.just("string"), "oneOf": _TITLED}, optional={**_LABELS, "default": st.just("b")}
    )
)
SEVERAL = st.fixed_dictionaries(
    {
        "type": st.just("array"),
        "items": st.just({"type": "string", "enum": ["a", "b"]}) | st.fixed_dictionaries({"anyOf": _TITLED}),
    },
    optional={**_LABELS, "minItems": st.just(1), "maxItems": st.just(2), "default": st.just(["a"])},
)


def form(fields: Any) -> Any:
    """A form to ask for. Titled choices and defaults came after forms themselves."""
    return st.fixed_dictionaries(
        {
            "mode": st.just("form"),
            "message": TEXT,
            "requestedSchema": st.fixed_dictionaries(
                {"type": st.just("object"), "properties": st.dictionaries(WORDS, fields, max_size=3)},
                optional={"required": st.just([]), "$schema": st.just("https://json-schema.org/draft/2020-12/schema")},
            ),
        }
    )
