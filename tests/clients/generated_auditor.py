"""An auditor's work by a client that nobody wrote: openapi-python-client makes it from the document of a running hub.

    generated_auditor.py HUB FOLDER TOOL CALLER     the key in KEY; writes FOLDER/audit.jsonl, and prints what it found

A warning of the generator is a failure: it stands for an operation, or a part of one, that the client lacks.
"""

import datetime
import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import parse_qs, urlsplit

HUB, FOLDER, TOOL, CALLER = sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4]
PAGE = 2
MOST_PAGES = 100


def generate() -> None:
    configuration = FOLDER / "configuration.yml"
    configuration.write_text("package_name_override: hub_client\npost_hooks: []\n")
    program = [str(Path(sys.executable).with_name("openapi-python-client")), "generate", "--fail-on-warning"]
    words = ["--url", f"{HUB}/api/schema", "--output-path", str(FOLDER / "made"), "--config", str(configuration)]
    done = subprocess.run([*program, *words], check=False, capture_output=True, text=True, timeout=300)
    told = done.stdout + done.stderr
    if done.returncode or "Warning" in told:
        raise SystemExit(told)
    sys.path.insert(0, str(FOLDER / "made"))


def operation(name: str) -> ModuleType:
    return importlib.import_module(f"hub_client.api.{name}")


def failed_today(client: Any, models: Any) -> list[str]:
    a_day_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)  # midnight may just have passed
    status = [models.InvocationsListStatusItem.ERROR]
    page = operation("invocations.invocations_list").sync(client=client, status=status, started_after=a_day_ago)
    return [each.invocation_id for each in page.results]


def one_call(client: Any, invocation_id: str) -> dict[str, Any]:
    call = operation("invocations.invocations_retrieve").sync(invocation_id, client=client)
    whole: dict[str, Any] = call.to_dict()
    assert call.started_at <= call.finished_at
    return whole


def all_of(client: Any) -> tuple[int, list[int]]:
    """Return how many pages the calls of one tool by one caller have, and their numbers."""
    found: list[int] = []
    cursor: dict[str, str] = {}
    pages = 0
    while pages < MOST_PAGES:
        page = operation("invocations.invocations_list").sync(
            client=client, tool=[TOOL], principal=[CALLER], limit=PAGE, **cursor
        )
        pages += 1
        found += [each.sequence for each in page.results]
        if page.next_ is None:
            break
        cursor = {"cursor": cursor_of(page.next_)}
    return pages, found


def cursor_of(address: str) -> str:
    return parse_qs(urlsplit(address).query)["cursor"][0]


def export(client: Any, models: Any) -> int:
    """Keep the audit as a file; give how many blocks the hub had signed."""
    newest = operation("audit.audit_checkpoints_list").sync(client=client, limit=1).results[0]
    answer = operation("audit.audit_export_retrieve").sync_detailed(
        client=client, format_=models.AuditExportRetrieveFormat.JSONL
    )
    assert answer.status_code == 200, answer.content
    (FOLDER / "audit.jsonl").write_bytes(answer.content)
    return int(newest.size)


def main() -> None:
    generate()
    hub_client = importlib.import_module("hub_client")
    models = importlib.import_module("hub_client.models")
    with hub_client.AuthenticatedClient(base_url=HUB, token=os.environ["KEY"], timeout=60) as client:
        failed = failed_today(client, models)
        pages, found = all_of(client)
        told = {
            "failed": failed,
            "call": one_call(client, failed[0]),
            "pages": pages,
            "sequences": found,
            "blocks": export(client, models),
        }
    print(json.dumps(told))


if __name__ == "__main__":
    main()
