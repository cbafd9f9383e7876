"""Viewsets of Django REST framework and models as tools, in process. Call these functions in a `tools.py`.

A call of such a tool is a request to the viewset by the caller's person: its permissions, throttles, querysets,
serializers, filters and pagination decide as they do over HTTP. Middleware does not run. Documented in
docs/integrate/embedding.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from django.db import models
from django_filters.rest_framework import DjangoFilterBackend  # type: ignore[import-untyped]
from rest_framework.filters import SearchFilter
from rest_framework.generics import GenericAPIView
from rest_framework.pagination import LimitOffsetPagination, PageNumberPagination
from rest_framework.parsers import JSONParser
from rest_framework.permissions import DjangoModelPermissions
from rest_framework.renderers import JSONRenderer
from rest_framework.serializers import ModelSerializer
from rest_framework.viewsets import ModelViewSet, ViewSetMixin

from mcphub.embedding.view_calls import ByCaller, FilesParser, ViewCall, handling
from mcphub.embedding.view_schemas import operation_of
from tools_catalog.backends.python import tool
from tools_catalog.backends.signatures import ToolDefinitionError
from tools_catalog.backends.threads import SyncContext

MOST_ROWS: Final = 200
"""In one answer, where the pagination of a viewset has no bound of its own."""
DEFAULT_ROWS: Final = 50
_READS: Final = ("list", "retrieve")
_METHODS: Final = {
    "list": "get",
    "retrieve": "get",
    "create": "post",
    "update": "put",
    "partial_update": "patch",
    "destroy": "delete",
}
_OF_ONE: Final = frozenset({"retrieve", "update", "partial_update", "destroy"})


def register_viewset(viewset: type, *, actions: Iterable[str] = (), name: str = "", kwargs: Iterable[str] = ()) -> None:
    """Register actions of a DRF viewset or generic view as tools: `<name>_<action>`, such as `order_list`.

    `actions` are those of the viewset, extra ones included; without any, `list` and `retrieve`. `name` defaults to that
    of its model. `kwargs` are keywords of its URL besides the one that names the row, as nested routers have them
    (`domain_pk`): required arguments. Raises ToolDefinitionError for an action that is unknown or cannot be described.
    """
    if not (isinstance(viewset, type) and issubclass(viewset, ViewSetMixin | GenericAPIView)):
        raise ToolDefinitionError(f"register_viewset needs a class of a viewset or generic view, not {viewset!r}.")
    if not issubclass(viewset, ViewSetMixin):
        viewset = _viewset_of(viewset)
    known = {*(each for each in _METHODS if hasattr(viewset, each)), *_extra(viewset)}
    chosen = list(actions) or [action for action in _READS if action in known]
    if missing := [action for action in chosen if action not in known]:
        raise ToolDefinitionError(
            f"{viewset.__qualname__} has no action {', '.join(missing)}. Its actions: {', '.join(sorted(known))}."
        )
    if not chosen:
        raise ToolDefinitionError(
            f"{viewset.__qualname__} has neither list nor retrieve. Name its actions: {', '.join(sorted(known))}."
        )
    keywords = _keywords(viewset, kwargs)
    for action in chosen:
        for method in _methods(viewset, action):
            _register(viewset, action, method, name or _name_of(viewset), keywords)


def register_model(
    model: type[models.Model],
    *,
    read: Iterable[str],
    write: Iterable[str] = (),
    filters: Iterable[str] = (),
    search: Iterable[str] = (),
    name: str = "",
) -> None:
    """Register a model as tools that list and retrieve its rows, with the fields in `read`.

    With `write`, also as tools that change those fields, and that create rows where no other field needs a value; none
    deletes. `filters` are fields that a list
    is narrowed by, `search` those that a search looks in (DRF, SearchFilter). Callers need Django's permissions to
    view, add and change the model. Raises ToolDefinitionError where `read` is empty or a field unknown.
    """
    shown, written = [*read], [*write]
    _check_fields(model, shown, written, [*filters, *search])
    fields = list(dict.fromkeys([model._meta.pk.name, *shown, *written]))
    locked = [field for field in fields if field not in written]
    meta = type("Meta", (), {"model": model, "fields": fields, "read_only_fields": locked})
    serializer = type(f"{model.__name__}Serializer", (ModelSerializer,), {"Meta": meta})
    viewset = type(
        f"{model.__name__}ViewSet",
        (ModelViewSet,),
        {
            "__module__": model.__module__,
            "__doc__": None,
            "queryset": model._default_manager.order_by("pk"),
            "serializer_class": serializer,
            "permission_classes": [_ModelPermissions],
            "pagination_class": _Pages,
            "filter_backends": [DjangoFilterBackend, SearchFilter],
            "filterset_fields": list(filters),
            "search_fields": list(search),
        },
    )
    actions = [*_READS, *(("partial_update",) if written else ())]
    actions += ["create"] if written and not _needed(model, written) else []
    register_viewset(viewset, actions=actions, name=name or str(model._meta.model_name))


def _viewset_of(view: Any) -> type:
    """Return a generic view as a viewset, which calls `list` where the view's `get` does nothing else."""
    for method in dict.fromkeys(_METHODS.values()):
        handler = getattr(view, method, None)
        if handler is not None and handler.__module__ != "rest_framework.generics":
            raise ToolDefinitionError(
                f"{view.__qualname__}.{method} has code of its own, which actions of a viewset would leave out. Move "
                "it to a viewset, and register that."
            )
    body = {"__module__": view.__module__, "__qualname__": view.__qualname__, "__doc__": view.__doc__}
    return type(view.__name__, (ViewSetMixin, view), body)


class _ModelPermissions(DjangoModelPermissions):
    """Django's permissions of the model, the one to view it included."""

    def __init__(self) -> None:
        self.perms_map = {**self.perms_map, "GET": ["%(app_label)s.view_%(model_name)s"]}


class _Pages(LimitOffsetPagination):
    default_limit = DEFAULT_ROWS
    max_limit = MOST_ROWS


def _register(viewset: Any, action: str, method: str, name: str, kwargs: list[str]) -> None:
    extra = _extra(viewset).get(action)
    is_of_one = action in _OF_ONE if extra is None else bool(extra.detail)
    options: dict[str, Any] = {**({} if extra is None else extra.kwargs), "detail": is_of_one}
    options |= {
        "authentication_classes": [ByCaller],
        "renderer_classes": [JSONRenderer],
        "parser_classes": [JSONParser],
    }
    if action == "list" and issubclass(viewset, GenericAPIView):
        options["pagination_class"] = _bounded(viewset.pagination_class)
    operation = operation_of(viewset, action, method, [*kwargs, *([_row_of(viewset)] if is_of_one else [])], options)
    if operation.has_files:
        options["parser_classes"] = [type("FilesParser", (FilesParser,), {"operation": operation})]
    own_name = f"{name}_{action}" + (f"_{method}" if len(_methods(viewset, action)) > 1 else "")
    served: Any = type(viewset.__name__, (viewset,), {"get_exception_handler": handling})
    call = ViewCall(served.as_view({method: action}, **options), method, operation)

    def run(hub_call: SyncContext, **arguments: Any) -> Any:
        return call(hub_call, arguments)

    # By its name, too: a viewset may be registered under several.
    run.__module__, run.__qualname__ = viewset.__module__, f"{viewset.__qualname__}.{own_name}"
    tool(
        name=own_name,
        description=_sentence(viewset, action, extra, operation.description),
        input_schema=operation.arguments,
        read_only=method == "get",
        destructive=method in ("put", "patch", "delete") or (extra is not None and method != "get"),
        idempotent=method in ("get", "put", "delete"),
        open_world=False,
    )(run)


def _keywords(viewset: Any, kwargs: Iterable[str]) -> list[str]:
    """Return the further keywords of a URL; raise ToolDefinitionError for names without a use as keywords."""
    names: list[Any] = [kwargs] if isinstance(kwargs, str) else [*kwargs]
    wrong = [each for each in names if not isinstance(each, str) or not each.isidentifier()]
    if isinstance(kwargs, str) or wrong or len({*names, _row_of(viewset)}) <= len(names):
        raise ToolDefinitionError(
            f"{viewset.__qualname__}: kwargs is a list of different keywords of its URL, such as ['domain_pk'], "
            f"without that of the row, {_row_of(viewset)}; not {kwargs!r}."
        )
    return names


def _row_of(viewset: Any) -> str:
    """Return the keyword that names the row."""
    return str(getattr(viewset, "lookup_url_kwarg", None) or getattr(viewset, "lookup_field", "pk"))


def _extra(viewset: Any) -> dict[str, Any]:
    return {each.__name__: each for each in viewset.get_extra_actions()}


def _methods(viewset: Any, action: str) -> list[str]:
    extra = _extra(viewset).get(action)
    return [_METHODS[action]] if extra is None else sorted(extra.mapping)


def _model_of(viewset: Any) -> Any:
    """Return the model of the queryset, else of the serializer; None where neither is declared."""
    queryset = getattr(viewset, "queryset", None)
    meta = getattr(getattr(viewset, "serializer_class", None), "Meta", None)
    return getattr(meta, "model", None) if queryset is None else queryset.model


def _name_of(viewset: Any) -> str:
    model = _model_of(viewset)
    if model is not None:
        return str(model._meta.model_name)
    bare = viewset.__name__.removesuffix("ViewSet") or viewset.__name__
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", bare).lower()


def _sentence(viewset: Any, action: str, extra: Any, described: str) -> str:
    """Return the description: a sentence for a standard action, and the author's words."""
    model = _model_of(viewset)
    one, many = ("row", "rows")
    if model is not None:
        one, many = str(model._meta.verbose_name), str(model._meta.verbose_name_plural)
    standard = {
        "list": f"List {many}.",
        "retrieve": f"Return one {one}.",
        "create": f"Create one {one}.",
        "update": f"Replace one {one}.",
        "partial_update": f"Change one {one}: the members that you send.",
        "destroy": f"Delete one {one}.",
    }
    words = [standard[action]] if extra is None else []
    words += [described] if described else [] if words else [f"{extra.kwargs['name']} ({many})."]
    return " ".join(words)


def _bounded(pagination: Any) -> Any:
    """Return the pagination of a viewset with a bound, where it has none."""
    if pagination is None:
        return _Pages
    bounds: dict[str, Any] = {}
    if issubclass(pagination, LimitOffsetPagination):
        bounds = {
            "default_limit": pagination.default_limit or DEFAULT_ROWS,
            "max_limit": pagination.max_limit or MOST_ROWS,
        }
    elif issubclass(pagination, PageNumberPagination):
        bounds = {
            "page_size": pagination.page_size or DEFAULT_ROWS,
            "max_page_size": pagination.max_page_size or MOST_ROWS,
        }
    return type(pagination.__name__, (pagination,), bounds) if bounds else pagination


def _needed(model: type[models.Model], written: list[str]) -> list[str]:
    """Return the fields without which no row can be created, and that callers may not write."""
    return [
        field.name
        for field in model._meta.concrete_fields
        if field.name not in written
        and not (field.null or field.primary_key or field.has_default() or field.has_db_default())
        and not (field.empty_strings_allowed or field.generated or getattr(field, "auto_now", False))
        and not getattr(field, "auto_now_add", False)
    ]


def _check_fields(model: type[models.Model], shown: list[str], written: list[str], named: list[str]) -> None:
    if not shown:
        raise ToolDefinitionError(f"register_model({model.__name__}): name the fields that callers may read.")
    known = {field.name for field in model._meta.get_fields()}
    for field in [*shown, *written, *(each.lstrip("^=@$").partition("__")[0] for each in named)]:
        if field not in known:
            raise ToolDefinitionError(
                f"register_model({model.__name__}): it has no field {field}. Its fields: {', '.join(sorted(known))}."
            )
