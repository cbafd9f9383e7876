"""Make docs/integrate/tool-api.md, the reference for authors of tools, from signatures and docstrings.

python -m tests.tool_api          writes the page; `make tool-api` does it
"""

from __future__ import annotations

import inspect
import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "integrate" / "tool-api.md"
_WIDTH = 100
_HEAD = """\
# The API for authors of tools

Made from the code by `make tool-api`; [tools.md](tools.md) and [resources.md](resources.md) explain the use. Within a
major version these names, parameters and their meaning stay; parameters with defaults may be added. Names in no page of
docs/ may change in any version.
"""


def page() -> str:
    """Return the whole page."""
    from mcphub import embedding
    from mcphub.embedding import viewsets
    from sessions_app.protocol.errors import AskFailed, MissingClientCapability
    from tools_catalog.backends import context, offered, python, sources, threads
    from tools_catalog.call import addresses, base, content, input_requests

    sections: list[tuple[str, str, list[Any]]] = [
        ("Tools", "From `tools_catalog.backends.python`.", [python.tool, python.ToolError, python.ToolDefinitionError]),
        (
            "Results",
            "From `tools_catalog.call.content`, and `ToolResult` from `tools_catalog.call.base`.",
            [content.Text, content.Image, content.Audio, content.Resource, content.ResourceLink, base.ToolResult],
        ),
        (
            "Input requests",
            "From `tools_catalog.call.input_requests`, for `context.ask`. `context.elicit` makes a `Form`, and so on.",
            [input_requests.Form, input_requests.Url, input_requests.Sample, input_requests.Roots],
        ),
        (
            "Input responses",
            "What the methods of the context give.",
            [input_requests.Elicited, input_requests.Sampled, input_requests.Root],
        ),
        ("Errors of input requests", "From `sessions_app.protocol.errors`.", [AskFailed, MissingClientCapability]),
        (
            "Resources and prompts",
            "From `tools_catalog.backends.offered`, and `Message` from `tools_catalog.backends.sources`.",
            [offered.resource, offered.prompt, offered.completion, offered.updated, sources.Message],
        ),
        ("Addresses", "From `tools_catalog.call.addresses`.", [addresses.completed]),
        (
            "In your Django project",
            "From `mcphub.embedding`, the last two from `mcphub.embedding.viewsets`; see [embedding.md](embedding.md), "
            "also for the signals of `invocations.signals` and `tools_catalog.signals`. "
            "Tests use [`mcphub.testing`](testing.md).",
            [
                embedding.add_hub,
                embedding.mount,
                embedding.add_pages,
                viewsets.register_viewset,
                viewsets.register_model,
            ],
        ),
    ]
    parts = [_HEAD]
    for title, words, objects in sections:
        parts += [f"## {title}\n", f"{words}\n", *map(_described, objects)]
        if title == "Tools":
            parts += ["## Context\n", "A parameter of an `async` tool with the type `Context` receives it.\n"]
            parts += [_members(context.Context)]
            parts += [
                "### SyncContext\n",
                "Plain functions take `SyncContext`, from `tools_catalog.backends.threads`: the same members as plain "
                "calls, without `await`, and besides:\n",
                _members(threads.SyncContext, besides=context.Context),
            ]
    return "\n".join(parts)


def _described(subject: Any) -> str:
    from tools_catalog.call.input_requests import InputRequest

    lines = [f"### {subject.__name__}\n"]
    if not (inspect.isclass(subject) and issubclass(subject, Exception)):
        mark = "@" if subject.__name__ in ("tool", "resource", "prompt", "completion") else ""
        lines += ["```python", mark + _signature(subject.__name__, inspect.signature(subject)), "```\n"]
    lines += [f"{_words(subject)}\n"]
    if inspect.isclass(subject) and not issubclass(subject, Exception | InputRequest):
        own = [name for name, value in vars(subject).items() if isinstance(value, property)]
        lines += [
            f"`.{name}`: {_words(vars(subject)[name].fget) or _result(vars(subject)[name].fget)}\n" for name in own
        ]
    return "\n".join(lines)


def _members(kind: type, besides: type | None = None) -> str:
    lines = []
    for name, value in vars(kind).items():
        if name.startswith("_") or name == "abandon" or (besides is not None and hasattr(besides, name)):
            continue
        if isinstance(value, property):
            lines += ["```python", f"context.{name}: {_result(value.fget)}", "```\n", f"{_words(value.fget)}\n"]
        elif inspect.isfunction(value):
            wait = "await " if inspect.iscoroutinefunction(value) else ""
            given = inspect.signature(value)
            plain = given.replace(parameters=list(given.parameters.values())[1:])
            lines += ["```python", wait + _signature(f"context.{name}", plain), "```\n", f"{_words(value)}\n"]
    return "\n".join(lines)


def _signature(name: str, given: inspect.Signature) -> str:
    written = list(_parameters(given))
    result = (
        ""
        if given.return_annotation in (inspect.Signature.empty, None, "None", "Any")
        else f" -> {_type(given.return_annotation)}"
    )
    line = f"{name}({', '.join(written)}){result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in written), f"){result}"])


def _parameters(given: inspect.Signature) -> Iterator[str]:
    starred = False
    for parameter in given.parameters.values():
        if parameter.kind is parameter.POSITIONAL_ONLY:
            continue  # the function that a decorator is written above
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            yield "*"
        prefix = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = "" if parameter.default is parameter.empty else f" = {_value(parameter.default)}"
        yield f"{prefix}{parameter.name}: {_type(parameter.annotation)}{default}"


def _value(value: Any) -> str:
    text = repr(value)
    return "…" if text.startswith("<") else text


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _result(function: Any) -> str:
    return _type(inspect.signature(function).return_annotation)


def _words(subject: Any) -> str:
    words = inspect.getdoc(subject) if subject.__doc__ else ""
    if not words or re.match(rf"{subject.__name__}\(", words):  # what a dataclass writes by itself
        return ""
    return words


def main() -> None:
    import django

    with tempfile.TemporaryDirectory(prefix="mcphub-tool-api-") as folder:
        os.environ.update(MCPHUB_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="mcphub.settings")
        django.setup()
        PAGE.write_text(page())


if __name__ == "__main__":
    main()
