"""REST over the audit's proof: checkpoints, proofs of consistency and of single rows, and operators' events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, BinaryIO

from django.db import DatabaseError
from django.http import Http404, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response

from invocations.chain import exporting, service
from invocations.chain.log import Log, inclusion_in, row_leaf
from invocations.chain.models import AuditBlock
from invocations.chain.records import RowSelection
from invocations.chain.sealer import checkpoint_note
from invocations.chain.tables import ENVELOPE, EVENT, INVOCATION, Audited
from invocations.chain.verifier import row_bytes
from invocations.lists.filters import CHECKPOINT_FILTERS, EVENT_FILTERS
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.rest.exports import ExportPipe
from sessions_app.history import events
from sessions_app.history.events import actor_of
from sessions_app.history.models import AuditEvent
from sessions_app.kit import replica
from sessions_app.kit.database import Dedicated
from sessions_app.kit.rest.errors import Conflict
from sessions_app.kit.rest.json_fields import JSONObject, JSONValue
from sessions_app.kit.rest.lists import WALKED, WalkedPagination
from sessions_app.kit.rest.replica import ReplicaReads
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.wire import AnyAccept
from sessions_app.kit.rest.writing import RowSerializer, RowViewSet
from sessions_app.protocol.errors import AuditUnavailable
from sessions_app.protocol.json import Json

_READ_LOG = {"read": "invocations.view_auditblock", "write": "invocations.view_auditblock"}
_SCOPE = {"read": "audit:read", "write": "audit:read"}
_HEX = {"type": "array", "items": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}


@extend_schema_field(_HEX)
class Hashes(serializers.Field[Any, Any, Any, Any]):
    """SHA-256 in hexadecimal, in the order of RFC 9162."""

    def to_representation(self, value: list[bytes]) -> list[str]:
        return [each.hex() for each in value]


def log() -> Log:
    """The log on the connection that is read now."""
    return service.log_on(replica.connection())


class CheckpointSerializer(RowSerializer[AuditBlock]):
    """The signed state of the log at `size` blocks."""

    size = serializers.SerializerMethodField(help_text="Blocks in the log.")
    rows = serializers.SerializerMethodField(help_text="Rows in these blocks, removed ones included.")
    tree_root = serializers.CharField(read_only=True, help_text="Of the tree over the blocks, in hexadecimal.")
    note = serializers.SerializerMethodField(help_text="The signed note (C2SP tlog-checkpoint).")

    class Meta:
        model = AuditBlock
        fields = ["size", "rows", "tree_root", "sealed_at", "key_id", "note"]
        read_only_fields = fields

    def get_size(self, block: AuditBlock) -> int:
        return block.number + 1

    def get_rows(self, block: AuditBlock) -> int:
        return block.first_position + block.row_count

    def get_note(self, block: AuditBlock) -> str:
        return checkpoint_note(log(), service.keys(), block.number + 1)


@extend_schema_view(
    list=extend_schema(summary="Checkpoints of the audit, newest first"),
    retrieve=extend_schema(summary="The checkpoint of the log when it had so many blocks"),
)
class CheckpointViewSet(ReplicaReads, mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[AuditBlock]):
    queryset = AuditBlock.objects.defer("header", "nodes")
    serializer_class = CheckpointSerializer
    filters = CHECKPOINT_FILTERS
    ordering = ("-number",)
    lookup_url_kwarg = "size"
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = _SCOPE
    required_permission = _READ_LOG
    missing = "The log was never so long. GET /api/audit/checkpoints/?limit=1 tells how long it is."

    def get_object(self) -> AuditBlock:
        block = self.get_queryset().filter(number=int(self.kwargs["size"]) - 1).first()
        if block is None:
            raise Http404
        return block


class ConsistencySerializer(serializers.Serializer[Any]):
    """The proof (RFC 9162, 2.1.4) that the log of `new` blocks continues that of `old`."""

    old = serializers.IntegerField()
    new = serializers.IntegerField()
    old_root = serializers.CharField()
    new_root = serializers.CharField()
    proof = Hashes()


class ConsistencyViewSet(ReplicaReads, RowViewSet[AuditBlock]):
    queryset = AuditBlock.objects.none()
    serializer_class = ConsistencySerializer
    required_scope = _SCOPE
    required_permission = _READ_LOG
    missing = (
        "There is no such proof. The first size is from 1 to the second, the second at most what "
        "GET /api/audit/checkpoints/?limit=1 tells."
    )

    @extend_schema(summary="The proof that the log only grew between two checkpoints", responses=ConsistencySerializer)
    def between(self, request: Request, old: str, new: str) -> Response:
        first, last = int(old), int(new)
        found = log()
        if not 0 < first <= last <= found.size():
            raise Http404
        proof = {
            "old": first,
            "new": last,
            "old_root": found.root(first).hex(),
            "new_root": found.root(last).hex(),
            "proof": found.consistency(first, last),
        }
        return Response(ConsistencySerializer(proof).data)


class RowProofSerializer(serializers.Serializer[Any]):
    """One row in its block: `row_path` leads from its hash to the block's root (RFC 9162, 2.1.3)."""

    table = serializers.CharField()
    id = serializers.IntegerField()
    position = serializers.IntegerField(help_text="Among all rows of the log.")
    covered = serializers.CharField(help_text="What the hash covers: canonical JSON, bodies by their digests.")
    leaf = serializers.CharField(help_text="SHA-256 of a zero byte and `covered`.")
    index = serializers.IntegerField(help_text="Among the rows of the block.")
    row_path = Hashes()
    block = JSONObject(help_text="The header; SHA-256 of a zero byte and its canonical JSON is the block's leaf.")
    block_path = Hashes(help_text="From the block's leaf to the checkpoint's root.")


class ProofSerializer(serializers.Serializer[Any]):
    """That the rows of one call are in the log which the checkpoint signs."""

    invocation = RowProofSerializer(allow_null=True)
    envelope = RowProofSerializer(allow_null=True)
    size = serializers.IntegerField(help_text="Blocks in the log of the checkpoint.")
    checkpoint = serializers.CharField(help_text="The signed note.")


class EventProofSerializer(serializers.Serializer[Any]):
    """That one event is in the log which the checkpoint signs."""

    event = RowProofSerializer()
    size = serializers.IntegerField(help_text="Blocks in the log of the checkpoint.")
    checkpoint = serializers.CharField(help_text="The signed note.")


class ProofViewSet(ReplicaReads, RowViewSet[McpToolInvocation]):
    queryset = McpToolInvocation.objects.all()
    serializer_class = ProofSerializer
    lookup_field = "invocation_id"
    lookup_value_regex = "[^/]+"
    required_scope = _SCOPE
    required_permission = _READ_LOG
    missing = "No sealed row has this id. Rows are sealed within seconds; one that retention removed has no proof."

    @extend_schema(summary="The proof that one call is in the log", responses=ProofSerializer)
    def retrieve(self, request: Request, invocation_id: str) -> Response:
        if "\0" in invocation_id:
            raise Http404
        found = log()
        size = found.size()
        models: tuple[tuple[Audited, Any], ...] = ((ENVELOPE, McpRequestEnvelope), (INVOCATION, McpToolInvocation))
        proofs = {}
        for of, model in models:
            row = model.objects.filter(invocation_id=invocation_id).values_list("id", flat=True).first()
            proofs[of.name] = None if row is None else prove(found, of, row, size)
        if not any(proofs.values()):
            raise Http404
        answer = {**proofs, "size": size, "checkpoint": checkpoint_note(found, service.keys(), size)}
        return Response(ProofSerializer(answer).data)


def prove(found: Log, of: Audited, row_id: int, size: int) -> dict[str, Json] | None:
    """Return the proof of a row in the log of `size` blocks; None where it is not sealed."""
    block = found.block_of(of.name, row_id, size)
    leaves = found.leaves(block.number) if block is not None else None
    if block is None or leaves is None:
        return None
    index = sum(block.header[name][2] for name in block.tables_before(of.name))
    while leaves[index][0] != row_id:
        index += 1
    values = next(found.rows(of, row_id - 1, row_id))
    return {
        "table": of.name,
        "id": row_id,
        "position": block.header["first"] + index,
        "covered": row_bytes(of.name, values).decode(),
        "leaf": row_leaf(of.name, values).hex(),
        "index": index,
        "row_path": inclusion_in([leaf for _, leaf in leaves], index),
        "block": block.header,
        "block_path": found.inclusion(block.number, size),
    }


class EventSerializer(RowSerializer[AuditEvent]):
    """Something that an operator changed, or that was done to the audit itself."""

    sequence = serializers.IntegerField(source="id", read_only=True)
    before = JSONValue(read_only=True, help_text="The fields that changed, as they were; null for what is new.")
    after = JSONValue(read_only=True, help_text="The same, as they are; null for what is gone.")

    class Meta:
        model = AuditEvent
        fields = [
            "sequence",
            "happened_at",
            "kind",
            "actor",
            "actor_label",
            "via",
            "subject_model",
            "subject_id",
            "subject_label",
            "before",
            "after",
            "reason",
        ]
        read_only_fields = fields


_EXPORT_FILTERS: dict[str, tuple[str, Any]] = {
    "tool": ("Exact name.", str),
    "principal": ("`key:<id>`, `user:<id>` or `anonymous`.", str),
    "session": ("Exact id.", str),
    "status": ("", {"type": "string", "enum": ["ok", "error"]}),
    "received_from": ("ISO 8601, included.", OpenApiTypes.DATETIME),
    "received_until": ("ISO 8601, excluded.", OpenApiTypes.DATETIME),
}
_BLOCK_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**15 - 1}


class ExportViewSet(ReplicaReads, RowViewSet[AuditBlock]):
    queryset = AuditBlock.objects.none()
    serializer_class = CheckpointSerializer
    required_scope = _SCOPE
    required_permission = {"read": "invocations.read_bodies", "write": "invocations.read_bodies"}
    content_negotiation_class = AnyAccept
    may_conflict = True

    @extend_schema(
        summary="The audit as a file that verifies",
        parameters=[
            OpenApiParameter("format", str, enum=["jsonl", "csv"], default="jsonl"),
            OpenApiParameter("first_block", _BLOCK_NUMBER, description="Begin with this block."),
            OpenApiParameter("last_block", _BLOCK_NUMBER, description="End with this block."),
            *(OpenApiParameter(name, kind, description=words) for name, (words, kind) in _EXPORT_FILTERS.items()),
        ],
        responses={(200, "application/jsonl"): OpenApiTypes.STR, (200, "text/csv"): OpenApiTypes.STR},
        description="What `mcphub audit export` writes, streamed and recorded. Without its last line it was cut off.",
    )
    def export(self, request: Request) -> StreamingHttpResponse:
        form, selection, first, last = _export_asked(request.query_params)
        try:
            exporting.need_block(log(), first)
        except exporting.CannotExport as why:
            raise Conflict(f"Nothing was exported: {why} GET /api/audit/checkpoints/?limit=1 tells the size.") from why
        after: dict[str, Any] = {"format": form, "filters": selection.words(), "first_block": first}
        if last is not None:
            after["last_block"] = last
        try:
            events.record("audit.exported", actor=actor_of(request.user), label=request.path, after=after)
        except DatabaseError as error:
            raise AuditUnavailable(
                "The export could not be recorded in the audit, so no file was made. Try again."
            ) from error

        read_from = replica.alias()

        def write(out: BinaryIO) -> None:
            database = Dedicated(alias=read_from)
            try:
                if form == "csv":
                    exporting.write_csv(out, service.log_of(database), selection)
                else:
                    exporting.write_jsonl(out, service.log_of(database), service.keys(), selection, first or 0, last)
            finally:
                database.close()

        kind = "text/csv; charset=utf-8" if form == "csv" else "application/jsonl"
        answer = StreamingHttpResponse(ExportPipe(write).chunks(), content_type=kind)
        answer["Content-Disposition"] = f'attachment; filename="audit.{form}"'
        answer["X-Content-Type-Options"] = "nosniff"
        return answer


def _export_asked(given: Json) -> tuple[str, RowSelection, int, int | None]:
    """Return format, selection, first and last block; raise ValidationError."""
    known = ("format", "first_block", "last_block", *_EXPORT_FILTERS)
    problems: dict[str, list[str]] = {
        name: [f"Unknown parameter. Parameters here: {', '.join(known)}."] for name in given if name not in known
    }
    words: dict[str, str] = {}
    blocks: dict[str, int | None] = {"first_block": 0, "last_block": None}
    for name in known:
        if name not in given:
            continue
        values = given.getlist(name)
        word = values[0]
        if len(values) > 1 or not word or "\0" in word:
            problems[name] = ["Give one value."]
        elif name in blocks:
            if word.isascii() and word.isdecimal() and len(word) <= 15:
                blocks[name] = int(word)
            else:
                problems[name] = ["Give the number of a block, 0 or more."]
        elif name.startswith("received_"):
            try:
                moment = datetime.fromisoformat(word)
                moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
                words[name] = moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            except (ValueError, OverflowError):
                problems[name] = ["Give a time such as 2026-11-21T08:30:00Z."]
        elif name == "status" and word not in ("ok", "error"):
            problems[name] = ["Choose ok or error."]
        elif name == "format" and word not in ("jsonl", "csv"):
            problems[name] = ["Choose jsonl or csv."]
        else:
            words[name] = word
    form = words.pop("format", "jsonl")
    if problems:
        raise ValidationError(problems)
    if form == "csv" and (blocks["first_block"] or blocks["last_block"] is not None):
        raise Conflict("CSV is not by blocks. Leave first_block and last_block out, and give a time instead.")
    return form, RowSelection(**words), blocks["first_block"] or 0, blocks["last_block"]


@extend_schema_view(
    list=extend_schema(summary="What operators changed, newest first", description=WALKED),
    retrieve=extend_schema(summary="One event"),
)
class EventViewSet(ReplicaReads, mixins.RetrieveModelMixin, mixins.ListModelMixin, RowViewSet[AuditEvent]):
    queryset = AuditEvent.objects.all()
    serializer_class = EventSerializer
    filters = EVENT_FILTERS
    pagination_class = WalkedPagination
    ordering = ("-id",)
    lookup_field = "id"
    lookup_url_kwarg = "sequence"
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = _SCOPE
    required_permission = {"read": "sessions_app.view_auditevent", "write": "sessions_app.view_auditevent"}
    missing = "There is no such event, or it is not sealed yet, or retention removed it."

    @extend_schema(
        summary="The proof that one event is in the log",
        responses=EventProofSerializer,
        filters=False,
        description="Events are sealed within seconds; one that retention removed has no proof.",
    )
    @action(detail=True, pagination_class=None)
    def proof(self, request: Request, sequence: str) -> Response:
        row = AuditEvent.objects.filter(id=int(sequence)).exists()
        found = log()
        size = found.size()
        proved = prove(found, EVENT, int(sequence), size) if row else None
        if proved is None:
            raise Http404
        answer = {"event": proved, "size": size, "checkpoint": checkpoint_note(found, service.keys(), size)}
        return Response(EventProofSerializer(answer).data)
