"""The Bitbucket pack's lists over answers with all members that Atlassian's documentation has: what is left of them."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from sessions_app.protocol.json import canonical
from tools_catalog import packs
from tools_catalog.backends.http.answer import shaped
from tools_catalog.backends.http.configuration import HttpConfiguration

PACK = json.loads((Path(packs.__file__).parent / "bitbucket" / "bundle.json").read_text())
TOOLS = {tool["name"]: tool["configuration"] for tool in PACK["tools"]}
API, SITE = "https://api.bitbucket.org/2.0", "https://bitbucket.org"
REPOSITORY_API = f"{API}/repositories/acme-platform/billing-service"
HASH = "7f3a9d2c41b86e05d9e7c4a1b2f6083d5e9c7a14"


def links(base: str, *names: str) -> dict[str, Any]:
    return {name: {"href": f"{base}/{name}" if name != "self" else base} for name in names}


USER = {
    "display_name": "Maria Lindqvist",
    "links": {
        "self": {"href": f"{API}/users/%7B5f2b7f5e-3c1d-4d8e-9b3f-1d2c3b4a5e6f%7D"},
        "avatar": {"href": "https://avatar-management--avatars.us-west-2.prod.public.atl-paas.net/initials/ML-3.png"},
        "html": {"href": f"{SITE}/%7B5f2b7f5e-3c1d-4d8e-9b3f-1d2c3b4a5e6f%7D/"},
    },
    "type": "user",
    "uuid": "{5f2b7f5e-3c1d-4d8e-9b3f-1d2c3b4a5e6f}",
    "account_id": "557058:1c9d3a52-7f0b-4b3e-8f0a-2e5d6c7b8a90",
    "nickname": "mlindqvist",
}
SHORT = {
    "type": "repository",
    "full_name": "acme-platform/billing-service",
    "links": links(REPOSITORY_API, "self", "html", "avatar"),
    "name": "billing-service",
    "uuid": "{b7c1a0de-2f4e-4c57-9a3b-0e6f5d4c3b2a}",
}
RELATED = ("watchers", "branches", "tags", "commits", "clone", "source", "forks", "downloads", "pullrequests", "hooks")
REPOSITORY = {
    **SHORT,
    "slug": "billing-service",
    "description": "Invoices, reminders and payments of all products.",
    "scm": "git",
    "website": None,
    "owner": {**USER, "type": "team"},
    "workspace": {
        "type": "workspace",
        "uuid": "{9c}",
        "name": "Acme",
        "slug": "acme",
        "links": links(API, "avatar", "html"),
    },
    "is_private": True,
    "project": {
        "type": "project",
        "key": "BIL",
        "uuid": "{4d}",
        "name": "Billing",
        "links": links(API, "self", "html", "avatar"),
    },
    "fork_policy": "no_public_forks",
    "created_on": "2021-03-04T10:12:44.113512+00:00",
    "updated_on": "2026-10-30T08:01:19.660471+00:00",
    "size": 48128331,
    "language": "python",
    "has_issues": False,
    "has_wiki": False,
    "mainbranch": {"type": "branch", "name": "main"},
    "override_settings": {"default_merge_strategy": True, "branching_model": True},
    "parent": None,
    "enforced_signed_commits": None,
    "links": {**links(REPOSITORY_API, "self", *RELATED), "html": {"href": f"{SITE}/acme-platform/billing-service"}},
}
RENDERED = (
    "Invoices of July are sent twice where a reminder is due on the same day. This takes the lock before it reads."
)
TEXT = {"type": "rendered", "raw": RENDERED, "markup": "markdown", "html": f"<p>{RENDERED}</p>"}
COMMIT = {
    "type": "commit",
    "hash": HASH,
    "date": "2026-10-29T14:20:07+00:00",
    "author": {"type": "author", "raw": "Maria Lindqvist <maria@acme.example>", "user": USER},
    "committer": {},
    "message": "Take the lock before the invoices are read\n\nTwo workers could read the same day.\n",
    "summary": {**TEXT, "raw": "Take the lock before the invoices are read"},
    "links": links(
        f"{REPOSITORY_API}/commit/{HASH}", "self", "html", "diff", "approve", "comments", "statuses", "patch"
    ),
    "parents": [{"hash": HASH, "links": links(f"{REPOSITORY_API}/commit/{HASH}", "self", "html"), "type": "commit"}],
    "rendered": {"message": TEXT},
    "repository": SHORT,
}
END = {
    "branch": {"name": "fix/lock-before-read", "links": {}, "sync_strategies": ["merge_commit", "rebase"]},
    "commit": {
        "hash": HASH[:12],
        "links": links(f"{REPOSITORY_API}/commit/{HASH[:12]}", "self", "html"),
        "type": "commit",
    },
    "repository": SHORT,
}
PULL_LINKS = (
    "commits",
    "approve",
    "request-changes",
    "diff",
    "diffstat",
    "comments",
    "activity",
    "merge",
    "decline",
    "statuses",
)
PULL = {
    "comment_count": 4,
    "task_count": 0,
    "type": "pullrequest",
    "id": 1482,
    "title": "Take the lock before the invoices are read",
    "description": RENDERED,
    "rendered": {
        "title": {**TEXT, "raw": "Take the lock"},
        "description": TEXT,
        "reason": {**TEXT, "raw": "", "html": ""},
    },
    "state": "OPEN",
    "draft": False,
    "merge_commit": None,
    "close_source_branch": True,
    "closed_by": None,
    "author": USER,
    "reason": "",
    "created_on": "2026-10-29T14:22:31.092011+00:00",
    "updated_on": "2026-10-30T08:01:19.431902+00:00",
    "destination": {**END, "branch": {"name": "main"}},
    "source": END,
    "summary": TEXT,
    "links": {
        **links(f"{REPOSITORY_API}/pullrequests/1482", "self", *PULL_LINKS),
        "html": {"href": f"{SITE}/acme-platform/billing-service/pull-requests/1482"},
    },
}
COMMENT = {
    "id": 512893741,
    "created_on": "2026-10-29T15:01:00.530112+00:00",
    "updated_on": "2026-10-29T15:01:00.530160+00:00",
    "content": {
        **TEXT,
        "raw": "Does the lock hold over the commit?",
        "html": "<p>Does the lock hold over the commit?</p>",
    },
    "user": USER,
    "deleted": False,
    "parent": {
        "id": 512893000,
        "links": links(f"{REPOSITORY_API}/pullrequests/1482/comments/512893000", "self", "html"),
    },
    "inline": {"from": None, "to": 88, "path": "billing/invoices/sending.py", "context_lines": "@@ -80,6 +80,9 @@"},
    "pending": False,
    "type": "pullrequest_comment",
    "links": links(f"{REPOSITORY_API}/pullrequests/1482/comments/512893741", "self", "html"),
    "pullrequest": {
        "type": "pullrequest",
        "id": 1482,
        "title": PULL["title"],
        "links": links(f"{REPOSITORY_API}/pullrequests/1482", "self", "html"),
    },
}
PIPELINE = {
    "type": "pipeline",
    "uuid": "{3e1d7a10-9a4f-4b6c-8d2e-7c5b4a392817}",
    "repository": SHORT,
    "state": {
        "name": "COMPLETED",
        "type": "pipeline_state_completed",
        "result": {"name": "SUCCESSFUL", "type": "pipeline_state_completed_successful"},
    },
    "build_number": 9310,
    "creator": USER,
    "created_on": "2026-10-30T08:01:22.014812Z",
    "completed_on": "2026-10-30T08:05:40.881090Z",
    "target": {
        "type": "pipeline_ref_target",
        "ref_type": "branch",
        "ref_name": "main",
        "selector": {"type": "branches", "pattern": "main"},
        "commit": {"type": "commit", "hash": HASH, "links": links(f"{REPOSITORY_API}/commit/{HASH}", "self", "html")},
    },
    "trigger": {"name": "PUSH", "type": "pipeline_trigger_push"},
    "run_number": 1,
    "duration_in_seconds": 258,
    "build_seconds_used": 244,
    "first_successful": False,
    "expired": False,
    "has_variables": False,
    "links": links(f"{REPOSITORY_API}/pipelines/%7B3e1d7a10%7D", "self", "steps"),
}
BRANCH = {
    "name": "main",
    "target": COMMIT,
    "links": links(f"{REPOSITORY_API}/refs/branches/main", "self", "commits", "html", "pullrequest_create"),
    "type": "branch",
    "merge_strategies": ["merge_commit", "squash", "fast_forward"],
    "sync_strategies": ["merge_commit", "rebase"],
    "default_merge_strategy": "merge_commit",
}
FILE = {
    "path": "billing/invoices/sending.py",
    "commit": {
        "hash": HASH,
        "type": "commit",
        "links": links(f"{REPOSITORY_API}/commit/{HASH}", "self", "html"),
        "repository": SHORT,
    },
    "type": "commit_file",
    "attributes": [],
    "escaped_path": "billing/invoices/sending.py",
    "size": 12843,
    "mimetype": "text/x-python",
    "links": links(f"{REPOSITORY_API}/src/{HASH}/billing/invoices/sending.py", "self", "meta", "history"),
}
DC = "https://git.acme.example"
DC_USER = {
    "name": "mlindqvist",
    "emailAddress": "maria@acme.example",
    "active": True,
    "displayName": "Maria Lindqvist",
    "id": 214,
    "slug": "mlindqvist",
    "type": "NORMAL",
    "links": {"self": [{"href": f"{DC}/users/mlindqvist"}]},
}
DC_REPOSITORY = {
    "slug": "billing-service",
    "id": 88,
    "name": "billing-service",
    "hierarchyId": "c2f1d9b07f1d4e2a9b33",
    "scmId": "git",
    "state": "AVAILABLE",
    "statusMessage": "Available",
    "forkable": True,
    "project": {
        "key": "BIL",
        "id": 12,
        "name": "Billing",
        "public": False,
        "type": "NORMAL",
        "links": {"self": [{"href": f"{DC}/projects/BIL"}]},
    },
    "public": False,
    "archived": False,
    "links": {
        "clone": [
            {"href": f"ssh://git@{DC[8:]}:7999/bil/billing-service.git", "name": "ssh"},
            {"href": f"{DC}/scm/bil/billing-service.git", "name": "http"},
        ],
        "self": [{"href": f"{DC}/projects/BIL/repos/billing-service/browse"}],
    },
}
DC_REF = {
    "id": "refs/heads/fix/lock-before-read",
    "displayId": "fix/lock-before-read",
    "latestCommit": HASH,
    "type": "BRANCH",
    "repository": DC_REPOSITORY,
}
DC_PULL = {
    "id": 1482,
    "version": 3,
    "title": PULL["title"],
    "description": RENDERED,
    "state": "OPEN",
    "open": True,
    "closed": False,
    "createdDate": 1793283751092,
    "updatedDate": 1793347279431,
    "fromRef": DC_REF,
    "toRef": {**DC_REF, "id": "refs/heads/main", "displayId": "main"},
    "locked": False,
    "author": {"user": DC_USER, "role": "AUTHOR", "approved": False, "status": "UNAPPROVED"},
    "reviewers": [
        {"user": DC_USER, "role": "REVIEWER", "approved": True, "status": "APPROVED", "lastReviewedCommit": HASH}
    ],
    "participants": [],
    "properties": {
        "mergeResult": {"outcome": "CLEAN", "current": True},
        "resolvedTaskCount": 0,
        "commentCount": 4,
        "openTaskCount": 0,
    },
    "links": {"self": [{"href": f"{DC}/projects/BIL/repos/billing-service/pull-requests/1482"}]},
}
LISTS: dict[str, tuple[Any, set[str]]] = {
    "bitbucket.list_repositories": (REPOSITORY, {"billing-service", "main", "acme-platform/billing-service"}),
    "bitbucket.list_branches": (BRANCH, {"main", HASH}),
    "bitbucket.list_commits": (COMMIT, {HASH, str(COMMIT["message"]), "Maria Lindqvist <maria@acme.example>"}),
    "bitbucket.list_pull_requests": (
        PULL,
        {str(PULL["title"]), "OPEN", "Maria Lindqvist", "fix/lock-before-read", "main"},
    ),
    "bitbucket.list_pull_request_comments": (
        COMMENT,
        {"Does the lock hold over the commit?", "billing/invoices/sending.py"},
    ),
    "bitbucket.list_files": (FILE, {"billing/invoices/sending.py"}),
    "bitbucket.list_pipelines": (PIPELINE, {"SUCCESSFUL", "main", HASH}),
    "bitbucket_dc.list_repositories": (DC_REPOSITORY, {"billing-service", "BIL"}),
    "bitbucket_dc.list_branches": ({**DC_REF, "isDefault": False}, {"fix/lock-before-read", HASH}),
    "bitbucket_dc.list_pull_requests": (DC_PULL, {str(DC_PULL["title"]), "OPEN", "Maria Lindqvist", "main", RENDERED}),
}
"""Tool -> an entry of its answer, and what a reader needs of it."""


def fitted(name: str) -> str:
    own = {member: value for member, value in TOOLS[name].items() if member != "service"}
    configuration = HttpConfiguration.parse({**own, "url": f"{API}{own['url']}"})
    return canonical(shaped(configuration, [LISTS[name][0]] * 30))


@pytest.mark.parametrize("name", LISTS)
def test_a_list_keeps_what_a_reader_needs(name: str) -> None:
    text = fitted(name)
    assert [value for value in LISTS[name][1] if json.dumps(value) not in text] == []


def test_half_of_the_lists_keep_a_fifth_of_their_answers_at_most() -> None:
    shares = {name: len(fitted(name)) / len(canonical([LISTS[name][0]] * 30)) for name in LISTS}
    assert statistics.median(shares.values()) <= 0.2, shares
    assert max(shares.values()) <= 0.35, shares
