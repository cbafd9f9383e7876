"""Bitbucket as its public documentation describes it: the shapes of answers, and which requests there are."""

from __future__ import annotations

import re
from typing import Any

from tests.wire.service import Answer, Asked

CLOUD_KEY = "Basic bWVAZXhhbXBsZS5vcmc6Y2xvdWQtdG9rZW4tMTIz"
"""me@example.org:cloud-token-123"""
SERVER_KEY = "Bearer server-token-123"

_USER = {"display_name": "Ann", "username": "ann", "account_id": "1"}
_COMMIT = {
    "hash": "c0ffee",
    "date": "2026-01-01T00:00:00Z",
    "author": {"raw": "Ann <a@b.c>"},
    "message": "Mend",
    "parents": [{"hash": "beef"}],
}
_REPOSITORY = {
    "name": "api",
    "full_name": "team/api",
    "slug": "api",
    "description": "",
    "is_private": True,
    "mainbranch": {"name": "main"},
    "links": {"html": {"href": "https://bitbucket.org/team/api"}},
}
_BRANCH = {"name": "main", "target": {"hash": "c0ffee", "date": "2026-01-01", "author": {"raw": "Ann"}}}
_PULL = {
    "id": 7,
    "title": "Mend it",
    "state": "OPEN",
    "author": _USER,
    "comment_count": 2,
    "summary": {"raw": "Words"},
    "source": {"branch": {"name": "mend"}, "commit": {"hash": "beef"}},
    "destination": {"branch": {"name": "main"}},
    "reviewers": [_USER],
    "participants": [{"user": _USER, "approved": False}],
    "links": {"html": {"href": "https://bitbucket.org/team/api/pull-requests/7"}},
}
_COMMENT = {"id": 3, "user": _USER, "content": {"raw": "Good."}, "inline": {"path": "a.py", "to": 4}}
_RUN = {
    "uuid": "{1}",
    "build_number": 5,
    "state": {"name": "COMPLETED", "result": {"name": "SUCCESSFUL"}},
    "target": {"ref_name": "main", "commit": {"hash": "c0ffee"}},
    "duration_in_seconds": 60,
}
_STEP = {"uuid": "{2}", "name": "test", "state": {"name": "COMPLETED", "result": {"name": "SUCCESSFUL"}}}
_FILE = {"path": "docs/a.md", "type": "commit_file", "size": 5, "commit": {"hash": "c0ffee"}}
_HIT = {"file": {"path": "a.py", "links": {"self": {"href": "https://h"}}}, "content_matches": []}

_DC_REPOSITORY = {"slug": "api", "name": "API", "project": {"key": "PRJ"}, "links": {"self": [{"href": "https://h"}]}}
_DC_PULL = {
    "id": 7,
    "version": 2,
    "title": "Mend it",
    "state": "OPEN",
    "author": {"user": {"displayName": "Ann"}},
    "fromRef": {"displayId": "mend", "latestCommit": "beef"},
    "toRef": {"displayId": "main"},
    "reviewers": [],
}
_DC_COMMIT = {"id": "c0ffee", "author": {"name": "Ann"}, "message": "Mend", "parents": [{"id": "beef"}]}


def _paged(*values: Any) -> dict[str, Any]:
    return {"pagelen": 10, "values": list(values), "page": 1}


def _dc_paged(*values: Any) -> dict[str, Any]:
    return {"size": len(values), "limit": 25, "isLastPage": True, "values": list(values), "start": 0}


_REPO, _DC = r"/2\.0/repositories/team/api", r"/rest/api/1\.0/projects/PRJ/repos/api"
ROUTES: list[tuple[str, str, Any]] = [
    ("GET", r"/2\.0/user", _USER),
    ("GET", r"/2\.0/repositories/team", _paged(_REPOSITORY)),
    ("GET", _REPO, _REPOSITORY),
    ("GET", _REPO + "/refs/branches", _paged(_BRANCH)),
    ("POST", _REPO + "/refs/branches", _BRANCH),
    ("GET", _REPO + "/commits", _paged(_COMMIT)),
    ("GET", _REPO + "/commit/c0ffee", _COMMIT),
    ("GET", _REPO + r"/diff/c0ffee\.\.beef", "diff --git a/a b/a"),
    ("GET", _REPO + "/pullrequests", _paged(_PULL)),
    ("POST", _REPO + "/pullrequests", _PULL),
    ("GET", _REPO + "/pullrequests/7", _PULL),
    ("GET", _REPO + "/pullrequests/7/diff", "diff --git a/a b/a"),
    ("GET", _REPO + "/pullrequests/7/comments", _paged(_COMMENT)),
    ("POST", _REPO + "/pullrequests/7/comments", _COMMENT),
    ("POST", _REPO + "/pullrequests/7/approve", {"approved": True, "user": _USER}),
    ("DELETE", _REPO + "/pullrequests/7/approve", ""),
    ("POST", _REPO + "/pullrequests/7/decline", {**_PULL, "state": "DECLINED"}),
    ("POST", _REPO + "/pullrequests/7/merge", {**_PULL, "state": "MERGED"}),
    ("GET", _REPO + "/src/c0ffee/", _paged(_FILE)),
    ("GET", _REPO + "/src/c0ffee/docs/", _paged(_FILE)),
    ("GET", _REPO + r"/src/c0ffee/docs/a b\.md", "# Words"),
    ("GET", r"/2\.0/workspaces/team/search/code", _paged(_HIT)),
    ("GET", _REPO + "/pipelines", _paged(_RUN)),
    ("POST", _REPO + "/pipelines", _RUN),
    ("GET", _REPO + r"/pipelines/\{1\}", _RUN),
    ("GET", _REPO + r"/pipelines/\{1\}/steps", _paged(_STEP)),
    ("GET", _REPO + r"/pipelines/\{1\}/steps/\{2\}/log", "ok"),
    ("POST", _REPO + r"/pipelines/\{1\}/stopPipeline", ""),
    ("GET", r"/rest/api/1\.0/application-properties", {"version": "8.19.2", "displayName": "Bitbucket"}),
    ("GET", r"/rest/api/1\.0/repos", _dc_paged(_DC_REPOSITORY)),
    ("GET", _DC, _DC_REPOSITORY),
    ("GET", _DC + "/branches", _dc_paged({"displayId": "main", "latestCommit": "c0ffee", "isDefault": True})),
    ("POST", _DC + "/branches", {"displayId": "mend", "latestCommit": "c0ffee"}),
    ("GET", _DC + "/commits", _dc_paged(_DC_COMMIT)),
    ("GET", _DC + "/commits/c0ffee", _DC_COMMIT),
    ("GET", _DC + "/pull-requests", _dc_paged(_DC_PULL)),
    ("POST", _DC + "/pull-requests", _DC_PULL),
    ("GET", _DC + "/pull-requests/7", _DC_PULL),
    ("GET", _DC + r"/pull-requests/7\.diff", "diff --git a/a b/a"),
    ("GET", _DC + "/pull-requests/7/activities", _dc_paged({"action": "COMMENTED", "comment": {"id": 3, "text": "x"}})),
    ("POST", _DC + "/pull-requests/7/comments", {"id": 3, "text": "Good."}),
    ("POST", _DC + "/pull-requests/7/approve", {"approved": True, "user": {"displayName": "Ann"}}),
    ("DELETE", _DC + "/pull-requests/7/approve", {"approved": False}),
    ("POST", _DC + "/pull-requests/7/decline", {**_DC_PULL, "state": "DECLINED"}),
    ("POST", _DC + "/pull-requests/7/merge", {**_DC_PULL, "state": "MERGED"}),
    ("GET", _DC + "/files", _dc_paged("a.py")),
    ("GET", _DC + "/files/docs", _dc_paged("a.md")),
    ("GET", _DC + r"/raw/docs/a b\.md", "# Words"),
    (
        "GET",
        r"/rest/build-status/1\.0/commits/c0ffee",
        _dc_paged({"state": "SUCCESSFUL", "key": "ci", "url": "https://ci"}),
    ),
]

GIVEN: dict[str, Any] = {
    "workspace": "team",
    "project": "PRJ",
    "repository": "api",
    "number": 7,
    "commit": "c0ffee",
    "spec": "c0ffee..beef",
    "pipeline": "{1}",
    "step": "{2}",
    "name": "mend",
    "start": "main",
    "source": "mend",
    "destination": "main",
    "title": "Mend it",
    "text": "Good.",
    "line": 4,
    "branch": "main",
    "query": "mend",
    "version": 2,
}


def arguments(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool of the pack what it requires."""
    wanted = tool["inputSchema"].get("required", [])
    path = "docs" if tool["name"].endswith("list_files") else "docs/a b.md"
    return {name: path if name == "path" else GIVEN[name] for name in wanted}


def answer(asked: Asked) -> Answer:
    key = CLOUD_KEY if asked.path.startswith("/2.0/") else SERVER_KEY
    if asked.headers.get("authorization") != key:
        return 401, {"type": "error", "error": {"message": "Token is invalid or not supported for this endpoint."}}
    for method, path, value in ROUTES:
        if method == asked.method and re.fullmatch(path, asked.path):
            return 200, value
    return 404, {"type": "error", "error": {"message": f"{asked.method} {asked.path}"}}
