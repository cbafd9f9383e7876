"""SCIM over HTTP: a key with the scope `people:write`, and nothing else, opens it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Model, QuerySet
from pydantic import ValidationError
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response
from scim2_models import (
    Context,
    Error,
    InvalidFilterException,
    InvalidSyntaxException,
    ListResponse,
    NotFoundException,
    PatchOp,
    PayloadTooLargeException,
    ResponseParameters,
    SCIMException,
    SearchRequest,
)

from mcphub.features.scim import discovery, groups, people, searching
from mcphub.features.scim.resources import TOLERANT, DirectoryGroup, DirectoryUser, group_shown, person_shown
from sessions_app.kit.rest.base import HubView
from sessions_app.kit.rest.errors import render_exception
from sessions_app.kit.rest.wire import AnyAccept, JSONParser, JSONRenderer
from sessions_app.models import ApiKey
from sessions_app.protocol.json import Json
from sessions_app.rest.access import KeyAuthentication

MOST_OPERATIONS = 100
"""Of one PATCH."""
_PARAMETERS = ("attributes", "excludedAttributes", "filter", "startIndex", "count")
"""Of the query; the hub does not sort, and reports that."""
_LONG_FILTER = f"A filter has at most {searching.LONGEST_FILTER} letters."
MOST_MEMBERS = 10_000
"""Entries of one attribute in one request."""


class ScimRenderer(JSONRenderer):
    media_type = "application/scim+json"


class ScimView(HubView):
    authentication_classes = (KeyAuthentication,)
    parser_classes = (JSONParser,)
    renderer_classes = (ScimRenderer,)
    content_negotiation_class = AnyAccept
    schema = None
    required_scope: ClassVar[Mapping[str, str]] = {"read": "people:write", "write": "people:write"}
    missing = "There is nothing here. SCIM serves /scim/v2/Users and /scim/v2/Groups; /scim/v2/Schemas says more."

    @property
    def key(self) -> ApiKey:
        assert isinstance(self.request.auth, ApiKey)
        return self.request.auth

    def get_exception_handler(self) -> Callable[[Exception, dict[str, object]], Response]:
        return _failed


class _Discovered(ScimView):
    """A document of the service, or the list of all of its kind."""

    def listed(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def get(self, request: Request, name: str = "") -> Response:
        if request.query_params.get("filter"):  # RFC 7644, section 4: 403, as every client shall get all of them
            return _error(Error(status=403, detail="What the service says of itself is not filtered."))
        found = self.listed()
        if name:
            if name not in found:
                raise NotFoundException(detail=f"There is only {', '.join(found)}.")
            return Response(found[name].model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE))
        shown = [each.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE) for each in found.values()]
        return Response(_page(shown, len(shown), 1))


class ScimTypes(_Discovered):
    def listed(self) -> Mapping[str, Any]:
        return discovery.resource_types()


class ScimSchemas(_Discovered):
    def listed(self) -> Mapping[str, Any]:
        return discovery.schemas()


class ScimConfiguration(ScimView):
    def get(self, request: Request) -> Response:
        return Response(discovery.config().model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE))


class ScimUnknown(ScimView):
    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFoundException(detail=self.missing)


class ScimUsers(ScimView):
    def get(self, request: Request) -> Response:
        return self.listed(_asked(SearchRequest[DirectoryUser], request))

    def listed(self, asked: Any) -> Response:
        is_shown = _wants(asked, "groups")
        rows = people.visible().prefetch_related("groups") if is_shown else people.visible()
        return _listed(rows, asked, searching.PEOPLE, lambda row: person_shown(row, with_groups=is_shown))

    def post(self, request: Request) -> Response:
        said = _said(DirectoryUser, request.data, Context.RESOURCE_CREATION_REQUEST)
        shown = person_shown(people.make(said))
        return _answer(shown, Context.RESOURCE_CREATION_RESPONSE, status=201)


class ScimUsersFound(ScimUsers):
    """A search with its query in the body, so that it appears in no log (section 3.4.3)."""

    def get(self, request: Request) -> Response:
        raise MethodNotAllowed("GET")

    def post(self, request: Request) -> Response:
        return self.listed(_said(SearchRequest[DirectoryUser], request.data, Context.SEARCH_REQUEST))


class ScimUser(ScimView):
    def get(self, request: Request, number: str) -> Response:
        asked = _asked(ResponseParameters[DirectoryUser], request)
        return _answer(person_shown(people.find(number)), Context.RESOURCE_QUERY_RESPONSE, asked)

    def put(self, request: Request, number: str) -> Response:
        said = _said(DirectoryUser, request.data, Context.RESOURCE_REPLACEMENT_REQUEST)
        with transaction.atomic():
            row = people.change(people.find(number, for_change=True), said)
        return _answer(person_shown(row), Context.RESOURCE_REPLACEMENT_RESPONSE)

    def patch(self, request: Request, number: str) -> Response:
        patch = _said(PatchOp[DirectoryUser], request.data, Context.RESOURCE_PATCH_REQUEST)
        with transaction.atomic():
            row = people.find(number, for_change=True)
            wanted = person_shown(row)
            patch.patch(wanted, scim_policy=TOLERANT)
            row = people.change(row, wanted)
        return _answer(person_shown(row), Context.RESOURCE_PATCH_RESPONSE)

    def delete(self, request: Request, number: str) -> Response:
        with transaction.atomic():
            people.remove(people.find(number, for_change=True))
        return Response(status=204)


class ScimGroups(ScimView):
    def get(self, request: Request) -> Response:
        return self.listed(_asked(SearchRequest[DirectoryGroup], request))

    def listed(self, asked: Any) -> Response:
        is_shown = _wants(asked, "members")
        rows = groups.visible(self.key, with_members=is_shown)
        return _listed(rows, asked, searching.GROUPS, lambda row: group_shown(row, with_members=is_shown))

    def post(self, request: Request) -> Response:
        said = _said(DirectoryGroup, request.data, Context.RESOURCE_CREATION_REQUEST)
        shown = group_shown(groups.make(self.key, said))
        return _answer(shown, Context.RESOURCE_CREATION_RESPONSE, status=201)


class ScimGroupsFound(ScimGroups):
    def get(self, request: Request) -> Response:
        raise MethodNotAllowed("GET")

    def post(self, request: Request) -> Response:
        return self.listed(_said(SearchRequest[DirectoryGroup], request.data, Context.SEARCH_REQUEST))


class ScimGroup(ScimView):
    def get(self, request: Request, number: str) -> Response:
        asked = _asked(ResponseParameters[DirectoryGroup], request)
        is_shown = _wants(asked, "members")
        row = groups.find(self.key, number, with_members=is_shown)
        return _answer(group_shown(row, with_members=is_shown), Context.RESOURCE_QUERY_RESPONSE, asked)

    def put(self, request: Request, number: str) -> Response:
        said = _said(DirectoryGroup, request.data, Context.RESOURCE_REPLACEMENT_REQUEST)
        with transaction.atomic():
            row = groups.change(self.key, groups.find(self.key, number, for_change=True), said)
        return _answer(group_shown(row), Context.RESOURCE_REPLACEMENT_RESPONSE)

    def patch(self, request: Request, number: str) -> Response:
        patch = _said(PatchOp[DirectoryGroup], request.data, Context.RESOURCE_PATCH_REQUEST)
        with transaction.atomic():
            row = groups.find(self.key, number, for_change=True)
            wanted = group_shown(row)
            patch.patch(wanted, scim_policy=TOLERANT)
            row = groups.change(self.key, row, wanted)
        return _answer(group_shown(row), Context.RESOURCE_PATCH_RESPONSE)

    def delete(self, request: Request, number: str) -> Response:
        with transaction.atomic():
            groups.remove(groups.find(self.key, number, for_change=True))
        return Response(status=204)


# What is asked ---------------------------------------------------------------------------------------------


def _said(model: Any, body: Json, context: Context) -> Any:
    """Read a body; raise SCIMException, ValidationError."""
    if not isinstance(body, dict):
        raise InvalidSyntaxException(detail="The body is one JSON object.")
    named = {name.lower(): value for name, value in body.items()}
    if len(str(named.get("filter", ""))) > searching.LONGEST_FILTER:
        raise InvalidFilterException(detail=_LONG_FILTER)
    operations = named.get("operations") or []
    if not isinstance(operations, list):
        raise InvalidSyntaxException(detail="Operations is a list of objects.")
    if len(operations) > MOST_OPERATIONS:
        words = f"One request has at most {MOST_OPERATIONS} operations. Send several, or one with several values."
        raise PayloadTooLargeException(detail=words)
    many = (each.get("value") if isinstance(each, dict) else each for each in operations)
    if any(isinstance(each, list) and len(each) > MOST_MEMBERS for each in (*named.values(), *many)):
        raise PayloadTooLargeException(detail=f"One request has at most {MOST_MEMBERS} values of an attribute.")
    return model.model_validate(body, scim_ctx=context, scim_policy=TOLERANT)


def _asked(model: Any, request: Request) -> Any:
    """Read the query; raise SCIMException, ValidationError."""
    query = {name: values[-1] for name, values in request.query_params.lists() if name in _PARAMETERS}
    if len(query.get("filter", "")) > searching.LONGEST_FILTER:
        raise InvalidFilterException(detail=_LONG_FILTER)
    return model.model_validate(query, scim_ctx=Context.SEARCH_REQUEST, scim_policy=TOLERANT)


def _wants(asked: Any, attribute: str) -> bool:
    """Return whether an attribute that costs more is to be shown."""
    named = [str(path).lower().split(".")[0] for path in asked.attributes or ()]
    left_out = [str(path).lower() for path in asked.excluded_attributes or ()]
    return attribute not in left_out and (not named or attribute in named)


# What is answered ------------------------------------------------------------------------------------------


def _listed(rows: QuerySet[Any], asked: Any, columns: Mapping[str, Any], show: Callable[[Any], Any]) -> Response:
    if asked.filter is not None:
        rows = rows.filter(searching.condition(columns, asked.filter.ast)).distinct()
    total = rows.count()
    first = min(asked.start_index or 1, 2**31)
    count = discovery.SHOWN if asked.count is None else min(asked.count, discovery.MOST_SHOWN)
    page: list[Model] = list(rows.order_by("pk")[first - 1 : first - 1 + count])
    shown = [
        show(row).model_dump(scim_ctx=Context.SEARCH_RESPONSE, response_parameters=asked, scim_policy=TOLERANT)
        for row in page
    ]
    return Response(_page(shown, total, first))


def _page(shown: list[Json], total: int, first: int) -> Json:
    return {
        "schemas": [str(ListResponse.__schema__)],
        "totalResults": total,
        "startIndex": first,
        "itemsPerPage": len(shown),
        "Resources": shown,
    }


def _answer(shown: Any, context: Context, asked: Any = None, status: int = 200) -> Response:
    body = shown.model_dump(scim_ctx=context, response_parameters=asked, scim_policy=TOLERANT)
    headers = {"Location": shown.meta.location} if status == 201 else None
    return Response(body, status=status, headers=headers)


def _failed(exc: Exception, context: dict[str, object]) -> Response:
    """Answer any exception in SCIM's shape (RFC 7644, section 3.12), in the hub's words where SCIM has none."""
    if isinstance(exc, ValidationError):
        return _error(Error.from_validation_errors(exc.errors(include_url=False)[:1])[0])
    if isinstance(exc, SCIMException):
        return _error(exc.to_error())
    answer = render_exception(exc, context)
    answer.data = Error(status=answer.status_code, detail=answer.data["detail"]).model_dump()
    answer.content_type = None  # that of SCIM
    return answer


def _error(error: Error) -> Response:
    return Response(error.model_dump(), status=error.status or 400)
