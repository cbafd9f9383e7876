"""Twenty questions of auditors: an archive of evidence alone answers each, from the fields that the document names.

The table of `docs/audit/compliance.md` and this module hold each other: an answer sees no field but those of its row,
must look at all of them, and each file of an archive is in some row.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tests import template
from tests.in_process import inside, run

pytestmark = pytest.mark.program

PAGE = (Path(__file__).parent.parent.parent.parent / "docs/audit/compliance.md").read_text()
QUESTIONS = {
    int(number): (question, asked, answer)
    for number, question, asked, answer in re.findall(r"^\| (\d+)\. (.+?) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)
}
CONTROL = re.compile(r"Article \d+|MCP\d\d|CC\d\.\d|[A-Z]{2}\.[A-Z]{2}|\b[58]\.\d+")
END = datetime(2099, 1, 1, tzinfo=UTC)

# The record of a small hub --------------------------------------------------------------------------------


@dataclass
class Hub:
    """A data directory, and the facts that somebody noted beside it."""

    home: Path
    facts: dict[str, Any] = field(default_factory=dict)

    def run(self, *words: str) -> str:
        done = run(self.home, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def editing(person: Any) -> Iterator[None]:
    """Let the edits inside be those of a person at a page of the console."""
    from django.test import RequestFactory

    from sessions_app.history.source import ADMIN, edits_via

    request = RequestFactory().get("/admin/")
    request.user = person
    with edits_via(ADMIN, request):
        yield


def long_ago() -> datetime:
    return datetime.now(UTC) - timedelta(days=200)


def call(tool: str, version: str = "1", **more: Any) -> None:
    from tests.factories import McpToolInvocationFactory

    fields = {"tool_digest": version * 64, "principal": "key:1", "caller_label": "robot", **more}
    McpToolInvocationFactory(session=None, session_id="s", tool_name=tool, tool_version=version, **fields)


def make_calls(first: datetime) -> None:
    call("before", received_at=long_ago())
    call("pay", "1")
    call("pay", "2")
    call("pay", "2", failed=True)
    call("pay", "2", principal="user:7", caller_label="olga", allowed_client="Claude (client 3)", received_at=first)
    refused = {"failed": True, "error_code": "policy_denied", "policy_rule": "no refunds", "policy_version": 3}
    call("refund", **refused, occurrences=4)
    call("mail", invocation_id="masked", guardrails="no-cards@1 arguments mask: card 1")


def make_old_block() -> int:
    """Seal the rows as if it was 40 days ago, so that retention removes them; return their number."""
    from invocations.chain import service
    from invocations.chain.sealer import Sealer
    from sessions_app.kit.database import Dedicated

    database, keys = Dedicated(), service.keys()
    keys.signer(may_make=True)
    sealed = Sealer(service.log_of(database), keys, now=lambda: datetime.now(UTC) - timedelta(days=40)).seal()
    database.close()
    return sealed


def make_people() -> dict[str, Any]:
    from django.contrib.auth.models import Group, Permission

    from mcphub.features.login.models import SecondFactor
    from tests.factories import UserFactory

    made = {name: UserFactory(username=name, is_staff=True) for name in ("anna", "boris", "rita")}
    for name in ("anna", "boris"):
        made[name].groups.add(Group.objects.get(name="Operator"))
    rights = Permission.objects.filter(codename__in=["decide_accessreview", "change_apikey"])
    made["rita"].user_permissions.set(rights)
    made["chief"] = UserFactory(username="chief", is_superuser=True)
    made["deputy"] = UserFactory(username="deputy", is_superuser=True)
    SecondFactor.objects.create(user=made["deputy"], kind="passkey", credential="0" * 64)
    UserFactory(username="olga", date_joined=long_ago())
    UserFactory(username="gone", date_joined=long_ago(), is_active=False)
    return made


def make_keys(people: dict[str, Any]) -> None:
    from sessions_app.models import ApiKey

    with editing(people["chief"]):
        ApiKey.issue("robot", scopes=["tools:call"], service="billing", expires_at=END, reason="ticket 7")
    with editing(people["anna"]):
        ApiKey.issue("leaked", scopes=["tools:list"], owner=people["anna"])
        for name in ("forgotten", "idle"):
            ApiKey.issue(name, scopes=["tools:list"], service="old", created_at=long_ago())
    with editing(people["boris"]):
        ApiKey.objects.filter(name="leaked").revoke("found in a repository")


def asked(person: Any, verb: str, path: str, **values: Any) -> int:
    """Return the status of a person's request over REST."""
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(person)
    return int(getattr(client, verb)(path, values, content_type="application/json").status_code)


def decide(decision: Callable[..., Any], person: Any, reason: str) -> None:
    from sessions_app.history.models import WaitingChange

    with editing(person):
        decision(WaitingChange.objects.get(state="waiting").pk, person, reason)


def make_changes(people: dict[str, Any]) -> None:
    """A tool gets another title, and a mark that a second person confirms; another mark is rejected."""
    from sessions_app.history import deciding
    from tests.factories import McpConnectionFactory, McpToolDefinitionFactory

    def patch(name: str, **values: Any) -> int:
        return asked(people[name], "patch", "/api/tool-definitions/pay/", **values)

    with editing(people["anna"]):
        McpToolDefinitionFactory(name="pay", title="Pay")
        McpConnectionFactory(slug="bank")
    assert patch("anna", title="Pay a bill") == 200
    assert patch("anna", read_only=True, destructive=False) == 202
    decide(deciding.confirm, people["boris"], "it only reads")
    assert patch("boris", read_only=False, destructive=True) == 200
    assert patch("anna", destructive=False) == 202
    decide(deciding.reject, people["boris"], "not so")


def make_approvals(people: dict[str, Any]) -> None:
    from invocations.redaction.records import RecordRedaction
    from mcphub.features.approvals import asking
    from mcphub.features.approvals.deciding import Decider, Decision, decide
    from mcphub.features.approvals.models import McpApproval

    deciders = {name: Decider(f"user:{people[name].pk}", name) for name in ("anna", "boris")}

    def waiting(id_: str, **more: Any) -> Any:
        known = {"principal": "key:1", "credential": "key:1", "caller_label": "robot", "tool_name": "pay"}
        times = {"created_at": datetime.now(UTC), "expires_at": END}
        return McpApproval.objects.create(id=id_, binding=id_, **{**known, **times, **more})

    both = waiting("appr_1", needed=2, arguments={"sum": 900})
    for name in ("anna", "boris"):
        both = decide(both, Decision(approve=True, reason="invoice 12"), deciders[name], RecordRedaction())
    asking.use("appr_1", "paid")
    edited = waiting("appr_2", needed=2, arguments={"sum": 80})
    for arguments in ({"sum": 8}, None):
        who = deciders["anna" if arguments else "boris"]
        edited = decide(edited, Decision(approve=True, reason="a typo", arguments=arguments), who, RecordRedaction())
    asking.use("appr_2", "paid less")
    decide(
        waiting("appr_3", arguments={"sum": 1}),
        Decision(approve=False, reason="no"),
        deciders["boris"],
        RecordRedaction(),
    )


def make_review(people: dict[str, Any]) -> None:
    from mcphub.features.access_review import deciding
    from mcphub.features.access_review.models import AccessReview

    review = AccessReview(name="Q4", due_at=END)
    deciding.start(review, [people["rita"]], people["chief"])
    for label, word, reason in (("forgotten", "take_away", "nobody needs it"), ("olga", "keep", "on leave")):
        with editing(people["rita"]):
            (done,) = deciding.decide(review, [review.rows.get(label=label)], word, reason, people["rita"])
        assert not done.problem


def make_stop(people: dict[str, Any]) -> None:
    from sessions_app.history import deciding

    assert asked(people["anna"], "post", "/api/write-stops/", reason="a leak") == 201
    assert asked(people["anna"], "post", "/api/write-stops/1/allow/") == 202
    decide(deciding.confirm, people["boris"], "seen")


def make_reads(people: dict[str, Any]) -> None:
    from invocations.rest import reads

    reads.note(people["rita"], "/api/invocations/", ["arguments"], [1])


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Hub:
    hub = Hub(tmp_path_factory.mktemp("hub"))
    template.copy_to(hub.home / "hub.sqlite3")
    since = datetime.now(UTC)
    with inside(hub.home):
        call("before", received_at=long_ago())
        hub.facts["removed"] = make_old_block()
        people = make_people()
        make_keys(people)
        make_calls(since)
        make_changes(people)
        make_approvals(people)
        make_review(people)
        make_stop(people)
        make_reads(people)
    hub.run("audit", "policy", "--rows-days", "30", "--bodies-days", "20", "--reason", "policy 7")
    hub.run("audit", "hold", "set", "case 9", "--tool", "pay", "--reason", "court")
    hub.run("audit", "hold", "set", "case 8", "--tool", "mail", "--reason", "claim")
    hub.run("audit", "hold", "release", "case 8", "--reason", "settled")
    hub.facts["month"] = hub.run("audit", "archive")[:7]
    manifest = hub.home / "audit/archive" / hub.facts["month"] / "manifest.json"
    hub.facts["manifest"] = hashlib.sha256(manifest.read_bytes()).hexdigest()
    hub.run("audit", "retain")
    hub.run("audit", "checkpoint")
    hub.run("audit", "verify")
    hub.run("audit", "export", "-o", str(hub.home / "audit.jsonl"))
    kept = (hub.home / "audit/checkpoints").read_text().rstrip().split("\n\n")
    notes = [note.splitlines() for note in kept]
    hub.facts["roots"] = {int(note[1]) - 1: base64.b64decode(note[2]).hex() for note in notes if len(note) > 2}
    hub.facts["keys"] = (hub.home / "audit/public.keys").read_text()
    hub.facts["period"] = [since.isoformat(), datetime.now(UTC).isoformat()]
    begin, end = hub.facts["period"]
    hub.run("audit", "evidence", "--from", begin, "--until", end, "-o", str(hub.home / "evidence.zip"))
    return hub


# The archive as an outsider has it ------------------------------------------------------------------------


class Line(dict[str, Any]):
    """A line with the fields that a question names; it notes which of them an answer looks at."""

    def __init__(self, name: str, fields: dict[str, Any], seen: set[tuple[str, str]]) -> None:
        super().__init__(fields)
        self._name, self._seen = name, seen

    def __getitem__(self, key: str) -> Any:
        self._seen.add((self._name, key))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._seen.add((self._name, str(key)))
        return super().__contains__(key)

    def of(self, *names: str) -> tuple[Any, ...]:
        return tuple(self[name] for name in names)


class Archive:
    """The files of an archive as one question may see them."""

    def __init__(self, hub: Hub, named: set[tuple[str, str]]) -> None:
        with zipfile.ZipFile(hub.home / "evidence.zip") as archive:
            self.files = {name: archive.read(name) for name in archive.namelist()}
        self.keys: str = hub.facts["keys"]
        """The public keys, from another source."""
        self.period = [datetime.fromisoformat(moment) for moment in hub.facts["period"]]
        self.named = named
        self.seen: set[tuple[str, str]] = set()

    def __getitem__(self, name: str) -> list[Line]:
        fields = {field for file, field in self.named if file == name}
        lines = [json.loads(line) for line in self.files[name].splitlines()]
        return [Line(name, {key: line[key] for key in fields & set(line)}, self.seen) for line in lines]

    def covers(self, moment: str) -> bool:
        return self.period[0] <= datetime.fromisoformat(moment) < self.period[1]


def named_in(answer: str) -> set[tuple[str, str]]:
    """Return the files and fields of a cell such as "`a.jsonl`: `x` `y`; `b.jsonl`: `z`"."""
    found, file = set(), ""
    for word in re.findall(r"`([^`]+)`", answer):
        if "." in word:
            file = word
        found.add((file, "" if word == file else word))
    return found


ANSWERS: dict[int, Callable[[Archive], Any]] = {}


def answers(number: int) -> Callable[[Callable[[Archive], Any]], Callable[[Archive], Any]]:
    def noted(answer: Callable[[Archive], Any]) -> Callable[[Archive], Any]:
        ANSWERS[number] = answer
        return answer

    return noted


def is_signed(archive: Archive, log: str, key_id: str) -> bool:
    public = {tuple(line.split("+", 2)[:2]): line.split("+", 2)[2] for line in archive.keys.splitlines() if "+" in line}
    name, id_, signature = archive.files["manifest.sig"].decode().split()
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public[name, id_])[1:])
    key.verify(base64.b64decode(signature), b"mcphub evidence 1\n" + archive.files["manifest.json"])
    return (name, id_) == (log, key_id)


@answers(1)
def _(archive: Archive) -> Any:
    (manifest,) = archive["manifest.json"]
    assert is_signed(archive, manifest["log"], manifest["key"])
    promised = {name: about["sha256"] for name, about in manifest["files"].items()}
    others = {name: data for name, data in archive.files.items() if not name.startswith("manifest.")}
    assert {name: hashlib.sha256(data).hexdigest() for name, data in others.items()} == promised
    return manifest.of("workspace", "from", "until")


@answers(2)
def _(archive: Archive) -> Any:
    return {line.of("tool_name", "tool_version", "tool_digest", "calls", "failed") for line in archive["tools.jsonl"]}


@answers(3)
def _(archive: Archive) -> Any:
    callers = [line for line in archive["callers.jsonl"] if line["tool_name"] == "pay"]
    last = max(callers, key=lambda line: datetime.fromisoformat(line["last"]))
    return {line["caller_label"]: line["allowed_client"] for line in callers}, last["caller_label"]


@answers(4)
def _(archive: Archive) -> Any:
    fields = ("caller_label", "tool_name", "error_code", "policy_rule", "policy_version", "occurrences")
    return [line.of(*fields) for line in archive["refused.jsonl"] if line["error_code"]]


@answers(5)
def _(archive: Archive) -> Any:
    return [
        line.of("invocation_id", "tool_name", "guardrails") for line in archive["refused.jsonl"] if line["guardrails"]
    ]


@answers(6)
def _(archive: Archive) -> Any:
    return [
        (*line.of("tool_name", "status", "needed", "decided_by", "reason"), [name for _id, name in line["approvers"]])
        for line in archive["approvals.jsonl"]
    ]


@answers(7)
def _(archive: Archive) -> Any:
    changed = [line for line in archive["approvals.jsonl"] if line["edited"] is not None and line["invocation_id"]]
    return [line.of("arguments", "edited", "invocation_id") for line in changed]


@answers(8)
def _(archive: Archive) -> Any:
    calls = [line["principal"] in dict(line["approvers"]) for line in archive["approvals.jsonl"]]
    changes = [line["proposer_label"] == line["decided_by"] for line in archive["second-person.jsonl"]]
    return calls, changes


@answers(9)
def _(archive: Archive) -> Any:
    kinds = ("tool.created", "tool.changed", "mcpconnection.created")
    changes = [line for line in archive["changes.jsonl"] if line["kind"] in kinds]
    assert all(archive.covers(line["happened_at"]) for line in changes)
    title = [
        line.of("before", "after") for line in changes if line["kind"] == "tool.changed" and "title" in line["after"]
    ]
    return {line.of("kind", "actor_label", "subject_label") for line in changes}, title


@answers(10)
def _(archive: Archive) -> Any:
    return [
        line.of("subject_label", "after", "state", "decided_by", "answer") for line in archive["second-person.jsonl"]
    ]


@answers(11)
def _(archive: Archive) -> Any:
    lines = [line for line in archive["changes.jsonl"] if line["kind"].startswith("key.")]
    issued = {
        (line["subject_label"].split()[0], line["actor_label"], line["reason"])
        for line in lines
        if line["kind"] == "key.created"
    }
    revoked = {
        (line["subject_label"].split()[0], line["actor_label"], line["reason"])
        for line in lines
        if line["kind"] == "key.changed" and line["after"].get("revoked_at")
    }
    return issued, revoked


@answers(12)
def _(archive: Archive) -> Any:
    return {
        line["key"]: (
            line["owner"] or line["service"],
            line["scopes"],
            (line["expires"] or "")[:10],
            bool(line["revoked"]),
        )
        for line in archive["access.jsonl"]
        if "key" in line
    }


@answers(13)
def _(archive: Archive) -> Any:
    people = [line for line in archive["access.jsonl"] if "person" in line]
    above = [line for line in people if line["active"] and line["superuser"]]
    return [line["person"] for line in above], [line["person"] for line in above if not line["second_factors"]]


@answers(14)
def _(archive: Archive) -> Any:
    unused = [line for line in archive["access.jsonl"] if line["unused"]]
    return [line["person"] if "person" in line else line["key"] for line in unused]


@answers(15)
def _(archive: Archive) -> Any:
    fields = ("review", "who", "kind", "decision", "decided_by", "reason")
    return {line.of(*fields) for line in archive["access-reviews.jsonl"] if line["decided_by"]}


@answers(16)
def _(archive: Archive) -> Any:
    stops = [line for line in archive["changes.jsonl"] if line["kind"].startswith("write_stop.")]
    return [(*line.of("kind", "actor_label"), line["after"]["in_force"]) for line in stops]


@answers(17)
def _(archive: Archive) -> Any:
    taken = [line for line in archive["changes.jsonl"] if line["kind"] in ("bodies.read", "audit.exported")]
    return [(line["kind"], *(line.of("actor_label") if ":" in line["actor"] else line.of("actor"))) for line in taken]


@answers(18)
def _(archive: Archive) -> Any:
    policy, *holds = archive["retention.jsonl"]
    assert all(archive.covers(line["set"]) for line in holds)
    return (
        policy.of("rows_days", "bodies_days"),
        [(*line.of("hold", "reason", "covers"), line["released"] is None) for line in holds],
    )


@answers(19)
def _(archive: Archive) -> Any:
    lines = archive["removals.jsonl"]
    assert all(archive.covers(line["removed_at"]) for line in lines)
    (month,) = archive["archived.jsonl"]
    return (
        [line.of("kind", "first_block", "last_block", "row_count") for line in lines],
        month.of("month", "first_block", "last_block", "rows", "removed_rows", "manifest", "state"),
        Path(month["place"]).name,
    )


@answers(20)
def _(archive: Archive) -> Any:
    runs = [line for line in archive["verifications.jsonl"] if line["way"] == "whole"]
    assert all(archive.covers(line["verified_at"]) for line in runs)
    return [line["problem"] for line in runs], {line["number"]: line["tree_root"] for line in archive["blocks.jsonl"]}


# Each answer is what happened -----------------------------------------------------------------------------


def facts(hub: Hub) -> dict[int, Any]:
    month = hub.facts["month"]
    return {
        1: (None, *hub.facts["period"]),
        2: {
            ("pay", "1", "1" * 64, 1, 0),
            ("pay", "2", "2" * 64, 3, 1),
            ("refund", "1", "1" * 64, 1, 1),
            ("mail", "1", "1" * 64, 1, 0),
        },
        3: ({"robot": None, "olga": "Claude (client 3)"}, "robot"),
        4: [("robot", "refund", "policy_denied", "no refunds", 3, 4)],
        5: [("masked", "mail", "no-cards@1 arguments mask: card 1")],
        6: [
            ("pay", "used", 2, "boris", "invoice 12", ["anna", "boris"]),
            ("pay", "used", 2, "boris", "a typo", ["anna", "boris"]),
            ("pay", "denied", 1, "boris", "no", []),
        ],
        7: [({"sum": 80}, {"sum": 8}, "paid less")],
        8: ([False] * 3, [False] * 3),
        9: (
            {
                ("tool.created", "anna", "pay"),
                ("tool.changed", "anna", "pay"),
                ("tool.changed", "boris", "pay"),
                ("mcpconnection.created", "anna", "bank"),
            },
            [({"title": "Pay", "version": "1"}, {"title": "Pay a bill", "version": "2"})],
        ),
        10: [
            ("pay", {"read_only": True, "destructive": False}, "confirmed", "boris", "it only reads"),
            ("pay", {"destructive": False}, "rejected", "boris", "not so"),
            ("a leak", {"in_force": False}, "confirmed", "boris", "seen"),
        ],
        11: (
            {("robot", "chief", "ticket 7"), ("leaked", "anna", ""), ("forgotten", "anna", ""), ("idle", "anna", "")},
            {("leaked", "boris", "found in a repository"), ("forgotten", "rita", "nobody needs it")},
        ),
        12: {
            "robot": ("billing", ["tools:call"], "2099-01-01", False),
            "leaked": ("anna", ["tools:list"], "", True),
            "forgotten": ("old", ["tools:list"], "", True),
            "idle": ("old", ["tools:list"], "", False),
        },
        13: (["chief", "deputy"], ["chief"]),
        14: ["olga", "idle"],
        15: {
            ("Q4", "forgotten", "key", "take_away", "rita", "nobody needs it"),
            ("Q4", "olga", "account", "keep", "rita", "on leave"),
        },
        16: [("write_stop.created", "anna", True), ("write_stop.changed", "boris", False)],
        17: [("bodies.read", "rita"), ("audit.exported", "machine")],
        18: ((30, 20), [("case 9", "court", {"tool": "pay"}, True), ("case 8", "claim", {"tool": "mail"}, False)]),
        19: (
            [("rows", 0, 0, hub.facts["removed"])],
            (month, 0, 0, hub.facts["removed"], hub.facts["removed"], hub.facts["manifest"], "as signed"),
            month,
        ),
        20: ([""], hub.facts["roots"]),
    }


def test_the_document_has_twenty_questions_of_controls_on_its_page() -> None:
    assert list(QUESTIONS) == list(range(1, 21)) == list(ANSWERS)
    controls = {
        word for line in PAGE.splitlines() if line.count("|") == 5 for word in CONTROL.findall(line.split("|")[1])
    }
    for number, (_question, asked, _answer) in QUESTIONS.items():
        assert asked.split(", ") == CONTROL.findall(asked), number
        assert set(CONTROL.findall(asked)) <= controls, number


def test_each_file_of_an_archive_answers_something(hub: Hub) -> None:
    with zipfile.ZipFile(hub.home / "evidence.zip") as archive:
        files = set(archive.namelist())
    assert {file for *_, answer in QUESTIONS.values() for file, _field in named_in(answer)} == files - {"report.html"}


@pytest.mark.parametrize("number", range(1, 21))
def test_the_archive_alone_answers(hub: Hub, number: int) -> None:
    named = named_in(QUESTIONS[number][2])
    archive = Archive(hub, named)
    assert ANSWERS[number](archive) == facts(hub)[number]
    assert archive.seen == {(file, field) for file, field in named if field}
