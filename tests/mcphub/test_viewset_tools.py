"""Viewsets of DRF and models as tools: their permissions, serializers, filters and bounds decide."""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.http import FileResponse, HttpResponse, StreamingHttpResponse
from django.test import override_settings
from django_filters.rest_framework import DjangoFilterBackend  # type: ignore[import-untyped]
from drf_spectacular.utils import extend_schema
from rest_framework import generics, serializers, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import Throttled
from rest_framework.pagination import LimitOffsetPagination
from rest_framework.permissions import DjangoModelPermissions, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import BaseThrottle

from mcphub.embedding.viewsets import register_model, register_viewset
from mcphub.testing import Client
from sessions_app.models import ApiKey
from tools_catalog.backends import python
from tools_catalog.backends.signatures import ToolDefinitionError

pytestmark = pytest.mark.django_db

BINARY = {"type": "string", "format": "binary"}
TEXT = {"type": "string"}
PIXEL = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")


class GroupSerializer(serializers.ModelSerializer[Group]):
    members = serializers.SerializerMethodField()
    motto = serializers.CharField(allow_null=True, required=False, write_only=True)

    class Meta:
        model = Group
        fields: ClassVar = ["id", "name", "members", "motto"]

    def get_members(self, group: Group) -> int:
        return group.user_set.count()

    def create(self, given: dict[str, Any]) -> Group:
        given.pop("motto", None)
        return Group.objects.create(**given)


class GroupViewSet(viewsets.ModelViewSet[Group]):
    """Groups of the shop."""

    queryset = Group.objects.filter(name__startswith="g").order_by("name")
    serializer_class = GroupSerializer
    permission_classes = (DjangoModelPermissions,)
    pagination_class = LimitOffsetPagination
    filter_backends = (DjangoFilterBackend,)
    filterset_fields = ("name",)

    @extend_schema(summary="Rename the group to its name in capitals.", request=None)
    @action(detail=True, methods=["post"], permission_classes=[IsAuthenticated])
    def shout(self, request: Request, pk: str) -> Response:
        group = self.get_object()
        group.name = group.name.upper()
        group.save()
        return Response({"name": group.name, "by": request.user.get_username()})

    @action(detail=False, methods=["get"])
    def report(self, request: Request) -> HttpResponse:
        """Return the report as a text."""
        return HttpResponse("all is well", content_type="text/plain")


class Wordless(viewsets.GenericViewSet[Group]):
    queryset = Group.objects.all()
    serializer_class = GroupSerializer
    pagination_class = LimitOffsetPagination
    filter_backends = ()

    @action(detail=False)
    def newest_names(self, request: Request) -> Response:
        return Response([])


class GroupsView(generics.ListCreateAPIView[Group]):
    serializer_class = GroupSerializer
    permission_classes = (DjangoModelPermissions,)
    pagination_class = LimitOffsetPagination
    filter_backends = ()

    def get_queryset(self) -> Any:
        return Group.objects.filter(name__startswith="g").order_by("name")


class CheckedView(GroupsView):
    def get(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        return Response("what the list has is not for everybody")


class Own(viewsets.ReadOnlyModelViewSet[User]):
    """People see themselves."""

    queryset = User.objects.none()
    pagination_class = None
    filter_backends = ()
    serializer_class = type(
        "OwnSerializer",
        (serializers.ModelSerializer,),
        {"Meta": type("Meta", (), {"model": User, "fields": ["id", "username"]})},
    )
    permission_classes = (IsAuthenticated,)

    def get_queryset(self) -> Any:
        return User.objects.filter(username=self.request.user.get_username())


class PageSerializer(serializers.Serializer[Any]):
    scan = serializers.FileField(allow_null=True)


class PhotoSerializer(serializers.Serializer[Any]):
    title = serializers.CharField(max_length=50)
    photo = serializers.FileField(help_text="The picture.", max_length=20)
    more = serializers.ListField(child=serializers.FileField(), required=False)


class Photos(viewsets.ViewSet):
    """Photos of the shop."""

    serializer_class = PhotoSerializer
    permission_classes = (IsAuthenticated,)

    @extend_schema(request=PhotoSerializer)
    def create(self, request: Request) -> Response:
        given = PhotoSerializer(data=request.data)
        given.is_valid(raise_exception=True)
        photo = given.validated_data["photo"]
        more = [each.size for each in given.validated_data.get("more", [])]
        return Response({"name": photo.name, "size": photo.size, "kind": photo.content_type, "more": more})

    @extend_schema(request={"multipart/form-data": {"type": "object", "properties": {"sheet": BINARY}}})
    @action(detail=False, methods=["post"])
    def upload(self, request: Request) -> Response:
        return Response(request.FILES["sheet"].read().decode())

    @extend_schema(request=type("Album", (PhotoSerializer,), {"photo": None, "pages": PageSerializer(many=True)}))
    @action(detail=False, methods=["patch"])
    def album(self, request: Request) -> Response:
        pages = PageSerializer(data=request.data.get("pages", []), many=True)
        pages.is_valid(raise_exception=True)
        scans = [each["scan"] and each["scan"].name for each in pages.validated_data]
        return Response({"more": [each.name for each in request.FILES.getlist("more")], "pages": scans})

    @extend_schema(request={"application/json": {"type": "object", "properties": {"kind": TEXT, "raw": TEXT}}})
    @action(detail=False, methods=["post"])
    def odd(self, request: Request) -> HttpResponse:
        kind, raw = request.data["kind"], bytes.fromhex(request.data["raw"])
        return HttpResponse(raw, content_type=kind, headers={"Content-Disposition": 'attachment; filename="../x/pwd"'})

    @action(detail=False)
    def moved(self, request: Request) -> HttpResponse:
        return HttpResponse(status=302, headers={"Location": "https://shop.example/photos.zip"})

    @action(detail=False)
    def logo(self, request: Request) -> HttpResponse:
        return HttpResponse(PIXEL, content_type="image/gif")

    @action(detail=False)
    def report(self, request: Request) -> FileResponse:
        return FileResponse(io.BytesIO(b"%PDF" + bytes(20)), as_attachment=True, filename="Größe 1.pdf")

    @action(detail=False)
    def rows(self, request: Request) -> StreamingHttpResponse:
        return StreamingHttpResponse(iter(["a,b\n", "1,2\n"]), content_type="text/csv")

    @action(detail=False)
    def events(self, request: Request) -> StreamingHttpResponse:
        return StreamingHttpResponse(itertools.repeat("data: x\n\n"), content_type="text/event-stream")


class Members(viewsets.ReadOnlyModelViewSet[User]):
    """Members of a group, as a nested router has them below it."""

    queryset = User.objects.order_by("pk")
    serializer_class = Own.serializer_class
    pagination_class = LimitOffsetPagination
    permission_classes = (IsAuthenticated,)
    filter_backends = ()

    def get_queryset(self) -> Any:
        return super().get_queryset().filter(groups=self.kwargs["group_pk"])


class Busy(BaseThrottle):
    def allow_request(self, request: Request, view: Any) -> bool:
        raise Throttled(wait=7)


class Slow(Own):
    throttle_classes = (Busy,)


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    before = dict(python.registry)
    yield
    python.registry.clear()
    python.registry.update(before)


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def clerk() -> User:
    made = User.objects.create_user("clerk")
    names = [f"{verb}_group" for verb in ("view", "add", "change", "delete")]
    made.user_permissions.set(Permission.objects.filter(codename__in=names))
    return made


def definitions(client: Client) -> dict[str, Any]:
    return {str(tool["name"]): tool for tool in client.tools()}


def test_a_viewset_is_read_only_unless_its_writes_are_named(ann: User) -> None:
    register_viewset(GroupViewSet)
    tools = definitions(Client(ann))
    assert {name for name in tools if name.startswith("group_")} == {"group_list", "group_retrieve"}
    assert tools["group_list"]["annotations"]["readOnlyHint"] is True
    assert tools["group_list"]["description"] == "List groups. Groups of the shop."


def test_arguments_come_from_paths_queries_and_serializers(ann: User) -> None:
    register_viewset(GroupViewSet, actions=["list", "create", "partial_update", "destroy", "shout"])
    tools = definitions(Client(ann))
    assert {"limit", "offset"} <= tools["group_list"]["inputSchema"]["properties"].keys()
    create = tools["group_create"]["inputSchema"]
    assert create["properties"].keys() == {"name", "motto"}
    assert create["required"] == ["name"]
    assert create["properties"]["motto"]["type"] == ["string", "null"]
    assert create["properties"]["name"]["maxLength"] == 150
    assert tools["group_partial_update"]["inputSchema"]["required"] == ["id"]
    assert tools["group_destroy"]["annotations"]["destructiveHint"] is True
    assert tools["group_create"]["annotations"]["destructiveHint"] is False
    assert tools["group_shout"]["description"] == "Rename the group to its name in capitals."
    assert tools["group_shout"]["inputSchema"]["properties"].keys() == {"id"}


def test_a_person_reads_and_writes_as_over_http(clerk: User) -> None:
    register_viewset(
        GroupViewSet, actions=["list", "retrieve", "create", "update", "partial_update", "destroy", "shout"]
    )
    client = Client(clerk)
    made = client.call("group_create", name="g blue", motto=None).data
    assert made == {"id": made["id"], "name": "g blue", "members": 0}
    assert client.call("group_retrieve", id=made["id"]).data == made
    assert client.call("group_partial_update", id=made["id"], name="g green").data["name"] == "g green"
    assert [row["name"] for row in client.call("group_list").data["results"]] == ["g green"]
    assert client.call("group_shout", id=made["id"]).data == {"name": "G GREEN", "by": "clerk"}
    assert client.call("group_destroy", id=made["id"]).text == "Done."
    assert client.call("group_list").data["results"] == []


def test_who_may_not_is_refused_and_recorded(ann: User) -> None:
    register_viewset(GroupViewSet, actions=["create"])
    refused = Client(ann).call("group_create", name="g blue")
    assert refused.text == "You do not have permission to perform this action."
    assert (refused.record.status, refused.record.principal) == ("error", f"user:{ann.pk}")
    assert not Group.objects.filter(name="g blue").exists()


def test_a_key_acts_as_its_owner_or_as_nobody(ann: User) -> None:
    register_viewset(Own, name="me")
    owned, _ = ApiKey.issue("laptop", owner=ann, scopes=["tools:call"])
    bare, _ = ApiKey.issue("robot", scopes=["tools:call"])
    assert [row["username"] for row in Client(key=owned).call("me_list").data["results"]] == ["ann"]
    assert Client(key=bare).call("me_list").text == "Authentication credentials were not provided."


def test_a_queryset_hides_the_rows_of_others(ann: User, clerk: User) -> None:
    register_viewset(Own, name="me")
    assert Client(ann).call("me_retrieve", id=ann.pk).data["username"] == "ann"
    assert "No User matches" in Client(ann).call("me_retrieve", id=clerk.pk).text


def test_values_that_a_serializer_refuses_name_their_members(clerk: User) -> None:
    register_viewset(GroupViewSet, actions=["create"])
    Group.objects.create(name="g blue")
    refused = Client(clerk).call("group_create", name="g blue")
    assert refused.error_code == "invalid_arguments"
    assert refused.text.endswith("name: group with this name already exists.")


def test_lists_are_bounded(clerk: User) -> None:
    Group.objects.bulk_create(Group(name=f"g {number:03}") for number in range(230))
    register_viewset(GroupViewSet)
    assert len(Client(clerk).call("group_list").data["results"]) == 50
    whole = Client(clerk).call("group_list", limit=10_000, offset=20).data
    assert (whole["count"], len(whole["results"]), whole["results"][0]["name"]) == (230, 200, "g 020")


def test_throttles_hold(ann: User) -> None:
    register_viewset(Slow, name="slow")
    assert "Expected available in 7 seconds" in Client(ann).call("slow_list").text


def test_a_text_is_returned_as_it_is(clerk: User) -> None:
    register_viewset(GroupViewSet, actions=["report"])
    assert Client(clerk).call("group_report").text == "all is well"


def file(raw: bytes, name: str = "dot.gif", **more: str) -> dict[str, str]:
    return {"name": name, "data": base64.b64encode(raw).decode(), **more}


def test_a_file_is_sent_in_base64(ann: User) -> None:
    register_viewset(Photos, actions=["create", "upload"])
    tools = definitions(Client(ann))
    photo = tools["photos_create"]["inputSchema"]["properties"]["photo"]
    assert photo["properties"]["data"]["contentEncoding"] == "base64"
    assert (photo["required"], photo["description"]) == (["name", "data"], "The picture.")
    made = Client(ann).call("photos_create", title="a", photo=file(PIXEL), more=[file(b"1"), file(b"22")])
    assert made.data == {"name": "dot.gif", "size": len(PIXEL), "kind": "image/gif", "more": [1, 2]}
    assert Client(ann).call("photos_upload", sheet=file(b"a,b", mimeType="text/csv")).text == "a,b"


def test_what_is_no_file_is_refused(ann: User) -> None:
    register_viewset(Photos, actions=["create"])
    client = Client(ann)
    assert "photo: The submitted file is empty." in client.call("photos_create", title="a", photo=file(b"")).text
    assert (
        "photo: data is not base64." in client.call("photos_create", photo={"name": "a", "data": "%"}, title="a").text
    )
    assert client.call("photos_create", title="a", photo="dot.gif").error_code == "invalid_arguments"


@pytest.mark.parametrize("name", ["", ".", "..", "a/..", "a/", "C:\\..", "\0", "\ud800"])
def test_what_is_no_name_of_a_file_is_refused_with_its_member(ann: User, name: str) -> None:
    register_viewset(Photos, actions=["create"])
    refused = Client(ann).call("photos_create", title="a", photo=file(PIXEL, name))
    assert refused.text == "photo: name is no name of a file."


def test_of_a_path_the_last_printable_part_is_the_name(ann: User) -> None:
    register_viewset(Photos, actions=["create"])
    for name in ("../../dot.gif", "C:\\pictures\\dot.gif", "d\0ot.gif", "dot\n.gif"):
        assert Client(ann).call("photos_create", title="a", photo=file(PIXEL, name)).data["name"] == "dot.gif"


def test_a_file_may_be_larger_than_other_bodies(ann: User, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1000
    register_viewset(Photos, actions=["create"])
    assert Client(ann).call("photos_create", title="a", photo=file(bytes(2000))).data["size"] == 2000


def test_files_lie_at_any_depth_and_are_asked_for_as_several(ann: User) -> None:
    register_viewset(Photos, actions=["album"])
    call = Client(ann).call
    pages = [{"scan": file(b"1", "1.png")}, {"scan": None}]
    made = call("photos_album", more=[file(b"2", "2.png"), file(b"3", "3.png")], pages=pages, title="a")
    assert made.data == {"more": ["2.png", "3.png"], "pages": ["1.png", None]}
    assert call("photos_album", title="a", pages=[]).data == {"more": [], "pages": []}


@pytest.mark.parametrize(
    ("kind", "raw", "text"),
    [
        ("application/x-ndjson", b'{"a":1}\n{"a":2}\n', '{"a":1}\n{"a":2}\n'),
        ("application/json", b"{broken", "{broken"),
        ("application/json", b"{}", "{}"),
        ("text/csv; charset=windows-1251", "имя".encode("cp1251"), "имя"),
        ("text/csv; charset=nope", b"a", "a"),
    ],
)
def test_what_is_no_json_is_the_text_that_its_charset_gives(ann: User, kind: str, raw: bytes, text: str) -> None:
    register_viewset(Photos, actions=["odd"])
    assert Client(ann).call("photos_odd", kind=kind, raw=raw.hex()).text == text


def test_a_file_is_named_without_a_path_and_a_redirect_names_its_place(ann: User) -> None:
    register_viewset(Photos, actions=["odd", "moved"])
    (block,) = Client(ann).call("photos_odd", kind="APPLICATION/ZIP", raw="00").wire["content"]
    assert (block["resource"]["uri"], block["resource"]["mimeType"]) == ("file:///pwd", "application/zip")
    assert Client(ann).call("photos_moved").text == "The result is at https://shop.example/photos.zip"


def test_a_file_is_returned_as_content_of_its_kind(ann: User) -> None:
    register_viewset(Photos, actions=["logo", "report", "rows"])
    (logo,) = Client(ann).call("photos_logo").wire["content"]
    assert logo == {"type": "image", "mimeType": "image/gif", "data": base64.b64encode(PIXEL).decode()}
    (report,) = Client(ann).call("photos_report").wire["content"]
    assert report["resource"]["uri"] == "file:///Gr%C3%B6%C3%9Fe%201.pdf"
    assert base64.b64decode(report["resource"]["blob"]).startswith(b"%PDF")
    assert Client(ann).call("photos_rows").text == "a,b\n1,2\n"


def test_files_and_streams_without_an_end_are_refused(ann: User, settings: Any) -> None:
    register_viewset(Photos, actions=["report", "logo", "events"])
    settings.MCPHUB_MAX_RESOURCE_BYTES = 10
    assert "more than 10 bytes" in Client(ann).call("photos_report").text
    assert "at most 10" in Client(ann).call("photos_logo").text
    assert "streams, which a tool cannot" in Client(ann).call("photos_events").text


def test_further_keywords_of_a_path_are_required_arguments(ann: User) -> None:
    register_viewset(Members, name="member", kwargs=["group_pk"])
    tools = definitions(Client(ann))
    assert tools["member_list"]["inputSchema"]["required"] == ["group_pk"]
    assert set(tools["member_retrieve"]["inputSchema"]["required"]) == {"group_pk", "id"}
    blue, red = (Group.objects.create(name=name) for name in ("blue", "red"))
    ann.groups.add(blue)
    assert [row["username"] for row in Client(ann).call("member_list", group_pk=str(blue.pk)).data["results"]] == [
        "ann"
    ]
    assert Client(ann).call("member_list", group_pk=str(red.pk)).data["results"] == []
    assert Client(ann).call("member_retrieve", group_pk=str(blue.pk), id=ann.pk).data["username"] == "ann"


def test_a_failed_write_leaves_nothing_where_requests_are_atomic(clerk: User, monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaking(GroupViewSet):
        def perform_create(self, serializer: Any) -> None:
            serializer.save()
            raise Throttled

    register_viewset(Breaking, actions=["create"], name="breaking")
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    assert Client(clerk).call("breaking_create", name="g blue").is_error
    assert not Group.objects.filter(name="g blue").exists()


def test_a_model_is_read_with_its_permission_and_named_fields(ann: User, clerk: User) -> None:
    register_model(Group, read=["name"], filters=["name"], search=["name"], name="team")
    Group.objects.create(name="g blue")
    Group.objects.create(name="g green")
    assert {name for name in definitions(Client(clerk)) if name.startswith("team_")} == {"team_list", "team_retrieve"}
    assert [row["name"] for row in Client(clerk).call("team_list", search="ree").data["results"]] == ["g green"]
    found = Client(clerk).call("team_list", name="g blue").data["results"]
    assert [row.keys() for row in found] == [{"id", "name"}]
    assert Client(ann).call("team_list").is_error


def test_a_model_is_written_where_fields_are_named(clerk: User) -> None:
    register_model(Group, read=["name"], write=["name"], name="team")
    made = Client(clerk).call("team_create", name="g blue").data
    assert Client(clerk).call("team_partial_update", id=made["id"], name="red").data == {
        "id": made["id"],
        "name": "red",
    }
    assert "team_destroy" not in definitions(Client(clerk))


def test_rows_that_lack_values_are_not_created_through_a_model(clerk: User) -> None:
    register_model(Permission, read=["name"], write=["name"])
    assert {"permission_partial_update", "permission_list"} <= definitions(Client(clerk)).keys()
    assert "permission_create" not in definitions(Client(clerk))  # its content type is required, and not writable
    register_model(ContentType, read=["model"], write=["model"], name="kind")
    assert "kind_create" in definitions(Client(clerk))


def test_an_action_without_words_has_its_name(clerk: User) -> None:
    register_viewset(Wordless, actions=["newest_names"])
    assert definitions(Client(clerk))["group_newest_names"]["description"] == "Newest names (groups)."


def test_a_generic_view_is_tools_named_by_the_model_of_its_serializer(ann: User, clerk: User) -> None:
    register_viewset(GroupsView, actions=["list", "create"])
    assert Client(clerk).call("group_create", name="g blue").data["name"] == "g blue"
    assert [row["name"] for row in Client(clerk).call("group_list").data["results"]] == ["g blue"]
    assert Client(ann).call("group_create", name="g red").text == "You do not have permission to perform this action."


def test_a_viewset_under_two_names_is_two_sets_of_tools(ann: User) -> None:
    register_viewset(Own, name="me")
    register_viewset(Own, name="self")
    names = {"me_list", "me_retrieve", "self_list", "self_retrieve"}
    assert names <= definitions(Client(ann)).keys()


@pytest.mark.parametrize(
    ("register", "words"),
    [
        (lambda: register_viewset(GroupViewSet, actions=["fly"]), "has no action fly. Its actions: create, destroy"),
        (lambda: register_viewset(dict), "needs a class of a viewset"),
        (lambda: register_viewset(CheckedView), "CheckedView.get has code of its own"),
        *(
            (partial(register_viewset, Members, kwargs=kwargs), "kwargs is a list of different keywords")
            for kwargs in ("group_pk", ["pk"], ["a", "a"], ["group-pk"], [""], [5])
        ),
        (lambda: register_viewset(viewsets.ViewSet), "neither list nor retrieve"),
        (lambda: register_model(Group, read=[]), "name the fields that callers may read"),
        (lambda: register_model(Group, read=["nam"]), "it has no field nam. Its fields: "),
        (lambda: register_model(Group, read=["name"], search=["^title"]), "it has no field title"),
    ],
)
def test_what_cannot_be_registered_is_refused_with_what_there_is(register: Any, words: str) -> None:
    with pytest.raises(ToolDefinitionError, match=words):
        register()


@override_settings(MCPHUB_PUBLIC_URL="https://shop.example/hub", ALLOWED_HOSTS=["shop.example"])
def test_addresses_in_results_are_those_of_the_host(clerk: User) -> None:
    Group.objects.bulk_create(Group(name=f"g {number}") for number in range(3))
    register_viewset(GroupViewSet)
    assert Client(clerk).call("group_list", limit=1).data["next"].startswith("https://shop.example")
