"""A Python function's description of itself, as JSON Schema: parameters, result, texts of its docstring.

Used once per tool, at import. A function that cannot be described is refused there, with the change that its author
needs to make, because a tool without a schema cannot be called safely.
"""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NoReturn, Union, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import PydanticUndefined

from tools_catalog.call.base import Json, ToolResult
from tools_catalog.call.content import ContentBlock

NO_ARGUMENTS: dict[str, Json] = {"type": "object", "additionalProperties": False}
"""The schema that MCP recommends for a tool without parameters."""

_SECTION = re.compile(r"^(args|arguments|parameters):\s*$", re.IGNORECASE)
_ARGUMENT = re.compile(r"^(\s+)\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")

_PLAIN_SCALARS = frozenset({str, int, float, bool, type(None), Any, object})
_SCHEMA_ONLY_METADATA = (
    annotated_types.Gt,
    annotated_types.Ge,
    annotated_types.Lt,
    annotated_types.Le,
    annotated_types.MultipleOf,
    annotated_types.MinLen,
    annotated_types.MaxLen,
)


class ToolDefinitionError(TypeError):
    """A function cannot become a tool as it is written. For its author, at import."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """How JSON arguments become the keyword arguments of one function.

    `model` is None when the values of valid JSON are already the values that the function expects.
    """

    schema: dict[str, Json]
    names: frozenset[str] | None
    required: frozenset[str]
    integers: tuple[str, ...]
    model: type[BaseModel] | None
    field_to_parameter: dict[str, str]
    context_parameter: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The promise of a function's return annotation. `schema` None: content only, nothing to validate."""

    schema: dict[str, Json] | None
    is_wrapped: bool


NO_SCHEMA: Final = Returned(schema=None, is_wrapped=False)


def describe_parameters(
    function: Callable[..., object], *, override: dict[str, Json] | None, context_types: tuple[object, ...]
) -> Parameters:
    """Read the parameters of `function`. With `override` the author's own schema is used, and values arrive
    as they are."""
    signature = inspect.signature(function)
    hints = _hints(function)
    context_parameter = _context_parameter(function, hints, context_types)
    parameters = [p for p in signature.parameters.values() if p.name != context_parameter]
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            _refuse(function, f"parameter '{parameter.name}' is positional-only. Remove the '/'")
    if override is not None:
        return _overridden(override, parameters, context_parameter)

    descriptions = _argument_descriptions(function)
    fields: dict[str, Any] = {}
    field_to_parameter: dict[str, str] = {}
    plain = True
    integers: list[str] = []
    for position, parameter in enumerate(parameters):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            _refuse(function, f"'*{parameter.name}' has no schema. Name each parameter, or pass input_schema= to @tool")
        if parameter.name not in hints:
            _refuse(
                function, f"parameter '{parameter.name}' has no type hint. Write for example '{parameter.name}: str'"
            )
        annotation = hints[parameter.name]
        info = _field_info(annotation)
        if isinstance(parameter.default, FieldInfo):
            _refuse(
                function,
                f"parameter '{parameter.name}' has Field(...) as its default. "
                f"Write '{parameter.name}: Annotated[<type>, Field(...)] = <default>'",
            )
        wire_name = (info.alias if info else None) or parameter.name
        options: dict[str, Any] = {"alias": wire_name}
        if not (info and info.description) and parameter.name in descriptions:
            options["description"] = descriptions[parameter.name]
        default = PydanticUndefined if parameter.default is parameter.empty else parameter.default
        has_own_default = info is not None and not info.is_required()
        if default is PydanticUndefined and has_own_default:
            _refuse(
                function,
                f"the default of parameter '{parameter.name}' is inside Field(...). "
                "Write it as the parameter's default",
            )
        field = f"p{position}"
        fields[field] = (annotation, Field(default, **options))
        field_to_parameter[field] = parameter.name
        plain = plain and wire_name == parameter.name and _is_plain(annotation)
        if _bare(annotation) is int:
            integers.append(parameter.name)

    if not fields:
        return Parameters(
            schema=dict(NO_ARGUMENTS),
            names=frozenset(),
            required=frozenset(),
            integers=(),
            model=None,
            field_to_parameter={},
            context_parameter=context_parameter,
        )
    model = _model(function, fields)
    schema = _schema_of(function, model, "validation", "its parameters")
    return Parameters(
        schema=_with_object_first(schema),
        names=frozenset(schema["properties"]),
        required=frozenset(schema.get("required", ())),
        integers=tuple(integers),
        model=None if plain else model,
        field_to_parameter=field_to_parameter,
        context_parameter=context_parameter,
    )


def describe_result(function: Callable[..., object], *, override: dict[str, Json] | type | None) -> Returned:
    """Read the return annotation of `function`.

    Objects (models, dataclasses, TypedDict, dict) are described as they are. Numbers, booleans, lists, unions
    and the like are wrapped as `{"result": ...}`, because older revisions allow only objects. Text, None,
    content blocks, `ToolResult`, `Any` and a missing annotation have no output schema.
    """
    if isinstance(override, dict):
        return Returned(schema=override, is_wrapped=False)
    annotation = override if override is not None else _hints(function).get("return")
    if annotation is None or _is_content(annotation):
        return NO_SCHEMA
    schema = _schema_of(function, annotation, "serialization", "its result")
    if _is_object(schema):
        return Returned(schema=_with_object_first(schema), is_wrapped=False)
    definitions = schema.pop("$defs", None)
    wrapped: dict[str, Json] = {
        "type": "object",
        "properties": {"result": schema},
        "required": ["result"],
        "additionalProperties": False,
    }
    if definitions:
        wrapped["$defs"] = definitions
    return Returned(schema=wrapped, is_wrapped=True)


def description_of(function: Callable[..., object]) -> str:
    """Return the docstring without its Args section, whose lines describe the parameters instead."""
    kept: list[str] = []
    skipping = False
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        if _SECTION.match(line):
            skipping = True
        elif skipping and line and not line[0].isspace():
            skipping = False
        if not skipping:
            kept.append(line)
    return "\n".join(kept).strip()


def _argument_descriptions(function: Callable[..., object]) -> dict[str, str]:
    found: dict[str, str] = {}
    inside = False
    indent = 0
    current = ""
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        if _SECTION.match(line):
            inside, indent, current = True, 0, ""
            continue
        if not inside or not line.strip():
            continue
        if not line[0].isspace():
            inside = False
            continue
        match = _ARGUMENT.match(line)
        if match and (not indent or len(match[1]) <= indent):
            indent = len(match[1])
            current = match[2]
            found[current] = match[3].strip()
        elif current:
            found[current] = f"{found[current]} {line.strip()}".strip()
    return found


def _hints(function: Callable[..., object]) -> dict[str, object]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as exc:
        _refuse(
            function,
            f"its type hints cannot be read ({exc}). Import the types at module level, not under TYPE_CHECKING",
            exc,
        )


def _context_parameter(
    function: Callable[..., object], hints: dict[str, object], context_types: tuple[object, ...]
) -> str | None:
    wanted = context_types
    found = [name for name, hint in hints.items() if name != "return" and _bare(hint) in wanted]
    if len(found) > 1:
        _refuse(function, f"it has several Context parameters ({', '.join(found)}). Keep one")
    return found[0] if found else None


def _overridden(
    override: dict[str, Json], parameters: list[inspect.Parameter], context_parameter: str | None
) -> Parameters:
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return Parameters(
        schema=override,
        names=None if takes_any else frozenset(p.name for p in named),
        required=frozenset(p.name for p in named if p.default is p.empty),
        integers=(),
        model=None,
        field_to_parameter={},
        context_parameter=context_parameter,
    )


def _model(function: Callable[..., object], fields: dict[str, Any]) -> type[BaseModel]:
    try:
        return create_model(
            f"{function.__name__}_arguments",
            __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False, serialize_by_alias=True),
            **fields,
        )
    except (PydanticUserError, TypeError, ValueError) as exc:
        return _refuse(
            function,
            f"a parameter type cannot be read from JSON ({_first_line(exc)}). "
            "Use JSON types, standard types such as datetime and Enum, dataclasses or pydantic models",
            exc,
        )


class _Schema(GenerateJsonSchema):
    """Without the titles that pydantic derives from names, which are redundant for a model."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False

    def emit_warning(self, kind: object, detail: str) -> None:
        raise PydanticInvalidForJsonSchema(detail)


def _schema_of(function: Callable[..., object], annotation: Any, mode: JsonSchemaMode, part: str) -> dict[str, Json]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        schema = adapter.json_schema(schema_generator=_Schema, mode=mode, by_alias=True)
    except (PydanticUserError, TypeError, ValueError) as exc:
        _refuse(
            function,
            f"{part} cannot be described as JSON Schema ({_first_line(exc)}). "
            "Use JSON types, standard types such as datetime and Enum, dataclasses or pydantic models",
            exc,
        )
    schema.pop("title", None)
    return schema


def _with_object_first(schema: dict[str, Json]) -> dict[str, Json]:
    return {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}


def _is_object(schema: dict[str, Json]) -> bool:
    reference = schema.get("$ref", "")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        schema = schema["$defs"][reference.removeprefix("#/$defs/")]
    return bool(schema.get("type") == "object")


def _is_content(annotation: object) -> bool:
    bare = _bare(annotation)
    if bare in (str, None, type(None), Any, object, ToolResult):
        return True
    if isinstance(bare, type) and issubclass(bare, ContentBlock):
        return True
    if get_origin(bare) in (Union, types.UnionType):
        return all(_is_content(branch) for branch in get_args(bare))
    if get_origin(bare) in (list, tuple):
        items = [item for item in get_args(bare) if item is not Ellipsis]
        return any(_is_block(item) for item in items) and all(_is_content(item) for item in items)
    return False


def _is_block(annotation: object) -> bool:
    if get_origin(annotation) in (Union, types.UnionType):
        return any(_is_block(branch) for branch in get_args(annotation))
    return isinstance(annotation, type) and issubclass(annotation, ContentBlock)


def _is_plain(annotation: object) -> bool:
    """Return whether values of valid JSON are already values of `annotation`, so that pydantic has nothing to do."""
    if get_origin(annotation) is Annotated:
        bare, *metadata = get_args(annotation)
        constraints: list[Any] = []
        for item in metadata:
            constraints.extend(item.metadata if isinstance(item, FieldInfo) else (item,))
        return _is_plain(bare) and all(_is_schema_only(item) for item in constraints)
    if annotation in _PLAIN_SCALARS or annotation in (dict, list):
        return True
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return all(isinstance(value, str) for value in arguments)
    if origin is list:
        return all(_is_plain_inside(item) for item in arguments)
    if origin is dict:
        return arguments[0] is str and _is_plain_inside(arguments[1])
    if origin in (Union, types.UnionType):
        return all(_is_plain_inside(branch) for branch in arguments)
    return False


def _is_plain_inside(annotation: object) -> bool:
    # 1.0 is a JSON Schema integer; only a top-level parameter is turned into an int without pydantic.
    return _bare(annotation) is not int and _is_plain(annotation)


def _is_schema_only(constraint: object) -> bool:
    if isinstance(constraint, _SCHEMA_ONLY_METADATA):
        return True
    return type(constraint).__name__ == "PydanticGeneralMetadata" and set(vars(constraint)) <= {"pattern"}


def _bare(annotation: object) -> object:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _field_info(annotation: object) -> FieldInfo | None:
    if get_origin(annotation) is not Annotated:
        return None
    return next((item for item in get_args(annotation)[1:] if isinstance(item, FieldInfo)), None)


def _first_line(exc: Exception) -> str:
    return str(exc).strip().splitlines()[0].rstrip(".") if str(exc).strip() else type(exc).__name__


def _refuse(function: Callable[..., object], reason: str, cause: BaseException | None = None) -> NoReturn:
    where = f"{function.__module__}:{function.__qualname__}"
    raise ToolDefinitionError(f"@tool {where}: {reason}.") from cause
