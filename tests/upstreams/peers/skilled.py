"""An upstream that serves the skills of a folder, without a library: `skilled.py FOLDER PORT`, or a thread of a test.

Each folder below with a SKILL.md is a skill at its path. Of the file `habits.json` in it, `unlisted` names skills that
lists leave out, `wrong` URIs whose bytes are others than the manifest has, `dynamic` skills without a manifest,
`silent` says that it has none at all. Each read is a line of `reads.txt`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

EXTENSION = "io.modelcontextprotocol/skills"
WHOLE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


class SkillFolder:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def habits(self) -> dict[str, Any]:
        file = self.folder / "habits.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def entry(self, place: str) -> dict[str, Any]:
        root = self.folder / place
        files: Any = []
        for file in sorted(path for path in root.rglob("*") if path.is_file()):
            raw = file.read_bytes()
            uri = f"skill://{file.relative_to(self.folder).as_posix()}"
            files.append({"uri": uri, "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size": len(raw)})
        frontmatter = yaml.load((root / "SKILL.md").read_text().split("---\n")[1], yaml.BaseLoader)
        if place in self.habits().get("dynamic", ()):
            files = "dynamic"
        return {"uri": f"skill://{place}/SKILL.md", "frontmatter": frontmatter, "resources": files}

    def places(self) -> list[str]:
        return sorted(path.parent.relative_to(self.folder).as_posix() for path in self.folder.rglob("SKILL.md"))

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        habits = self.habits()
        if method == "server/discover":
            extensions = {} if habits.get("silent") else {EXTENSION: {}}
            capabilities = {"tools": {}, "resources": {}, "extensions": extensions}
            return {**WHOLE, "supportedVersions": ["2026-07-28"], "capabilities": capabilities}
        if method == "tools/list":
            return {**WHOLE, "tools": [{"name": "be", "inputSchema": {"type": "object"}}]}
        if method in ("resources/list", "resources/templates/list"):
            return {**WHOLE, "resources": [], "resourceTemplates": []}
        if method == "skills/list":
            shown = [place for place in self.places() if place not in habits.get("unlisted", ())]
            return {**WHOLE, "skills": [self.entry(place) for place in shown]}
        place = params.get("uri", "").removeprefix("skill://")
        if method == "skills/get" and place.removesuffix("/SKILL.md") in self.places():
            return {**WHOLE, "skill": self.entry(place.removesuffix("/SKILL.md"))}
        if method == "resources/read" and (self.folder / place).is_file():
            return {**WHOLE, "contents": [self.content(place, params["uri"], habits)]}
        return None

    def content(self, place: str, uri: str, habits: dict[str, Any]) -> dict[str, Any]:
        raw = (self.folder / place).read_bytes()
        with (self.folder / "reads.txt").open("a") as log:
            log.write(f"{place}\n")
        if uri in habits.get("wrong", ()):
            raw += b"!"
        try:
            return {"uri": uri, "text": raw.decode()}
        except UnicodeDecodeError:
            return {"uri": uri, "blob": base64.b64encode(raw).decode()}


def server_of(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """Return a server that listens, and serves once it is told to."""
    skills = SkillFolder(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            result = skills.answer(message.get("method", ""), message.get("params", {}))
            error = {"error": {"code": -32602, "message": "There is no such thing."}}
            told = error if result is None else {"result": result}
            raw = json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **told}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", port), Handler)


if __name__ == "__main__":
    serving = server_of(Path(sys.argv[1]), int(sys.argv[2]))
    print(f"ready {serving.server_address[1]}", flush=True)
    serving.serve_forever()
