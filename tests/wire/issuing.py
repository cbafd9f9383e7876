"""An authorization server of others: a document, keys, answers about tokens, and tokens as bad as a test wants."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm


def make_issuer(name: str, issuer: str, secret: str = "", **fields: Any) -> int:
    """Trust an issuer, in the process beside the hub."""
    from mcphub.features.signin.issuers.models import Issuer

    row = Issuer(name=name, issuer=issuer, enabled=True, **fields)
    row.set_secret(secret)
    row.full_clean()
    row.save()
    return row.pk


def make_group(name: str) -> None:
    from django.contrib.auth.models import Group

    Group.objects.get_or_create(name=name)


def remove_issuer(name: str) -> None:
    from mcphub.features.signin.issuers.models import Issuer

    Issuer.objects.get(name=name).delete()


def unlink(person: str) -> None:
    from mcphub.features.login.models import LinkedIdentity

    LinkedIdentity.objects.get(user__username=person).unlink(reason="test")


class ForeignIssuer:
    """Listens on a port of its own. `asked` counts requests by path."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.opaque: dict[str, dict[str, Any]] = {}
        """Token -> what the issuer says of it."""
        self.secrets: list[str] = []
        self.is_down = False
        self.keys: dict[str, rsa.RSAPrivateKey] = {}
        self.rotate("first")
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer._answer(self, b"")

            def do_POST(self) -> None:
                outer._answer(self, self.rfile.read(int(self.headers["content-length"])))

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.origin}/realms/work"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def rotate(self, key_id: str) -> None:
        """Sign with another key from now on, and publish it alone."""
        self.keys = {key_id: rsa.generate_private_key(public_exponent=65537, key_size=2048)}

    def published(self) -> list[dict[str, Any]]:
        return [
            {**json.loads(RSAAlgorithm.to_jwk(key.public_key())), "kid": key_id, "use": "sig", "alg": "RS256"}
            for key_id, key in self.keys.items()
        ]

    def claims(self, endpoint: str, person: str, **more: Any) -> dict[str, Any]:
        """Return the claims of a token; a `timedelta` is counted from this moment."""
        now = int(time.time())
        made = {
            "iss": self.url,
            "sub": f"subject of {person}",
            "aud": endpoint,
            "exp": now + 600,
            "iat": now,
            "scope": "openid tools:call",
            "preferred_username": person,
            "client_id": "their-client",
            "jti": uuid.uuid4().hex,
            **more,
        }
        return {
            name: now + int(value.total_seconds()) if isinstance(value, timedelta) else value
            for name, value in made.items()
            if value is not None
        }

    def token(self, endpoint: str, person: str, *, headers: dict[str, Any] | None = None, **more: Any) -> str:
        """Return a good token, but for what `more` says otherwise; None leaves a claim out."""
        [(key_id, key)] = self.keys.items()
        sent = {"typ": "at+jwt", "kid": key_id, **(headers or {})}
        return jwt.encode(self.claims(endpoint, person, **more), key, "RS256", headers=sent)

    def _answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        path = request.path
        self.asked[path] = self.asked.get(path, 0) + 1
        found: Any = None
        if path == "/realms/work/.well-known/openid-configuration":
            found = {
                "issuer": self.url,
                "jwks_uri": f"{self.url}/keys",
                "introspection_endpoint": f"{self.url}/introspect",
            }
        elif path == "/realms/work/keys":
            found = {"keys": self.published()}
        elif path == "/realms/work/introspect":
            self.secrets.append(request.headers.get("authorization", ""))
            [token] = parse_qs(body.decode())["token"]
            found = self.opaque.get(token, {"active": False})
        if self.is_down or found is None:
            request.send_error(503 if self.is_down else 404)
            return
        raw = json.dumps(found).encode()
        request.send_response(200)
        request.send_header("Content-Type", "application/json")
        request.send_header("Content-Length", str(len(raw)))
        request.end_headers()
        request.wfile.write(raw)


@contextmanager
def foreign_issuer() -> Iterator[ForeignIssuer]:
    made = ForeignIssuer()
    try:
        yield made
    finally:
        made.close()
