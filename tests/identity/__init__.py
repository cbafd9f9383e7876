"""A real identity provider (npm's oidc-provider) for tests: started for a hub that is registered there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.clients import install
from tests.servers import free_port

HERE = Path(__file__).parent
SECRET = "the secret of the hub at the provider"


class IdentityProvider:
    """One provider. Enter it: it answers at `issuer`; leave it: it has ended."""

    def __init__(self, people: Mapping[str, Mapping[str, Any]], *, bare_id_token: bool = False) -> None:
        self._people = people
        self._bare_id_token = bare_id_token
        self.port = free_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self, redirect_uri: str, logged_out: str, *, public: Mapping[str, str] | None = None) -> None:
        """Serve one client, the hub, that logins lead back to at `redirect_uri`; and `public` ones, id -> address."""
        folder = install.node(HERE / "package.json", install=bool(os.environ.get("MCPHUB_TEST_CLIENTS")) or _has_npm())
        if folder is None:
            pytest.skip("The identity provider is not installed, and npm is not here to install it.")
        wanted = {
            "issuer": self.issuer,
            "people": self._people,
            "bareIdToken": self._bare_id_token,
            "others": [
                {"client_id": name, "redirect_uris": [address], "token_endpoint_auth_method": "none"}
                for name, address in (public or {}).items()
            ],
            "client": {
                "client_id": "hub",
                "client_secret": SECRET,
                "redirect_uris": [redirect_uri],
                "post_logout_redirect_uris": [logged_out],
            },
        }
        script = install.scripts(folder, HERE) / "idp.mjs"
        node = folder / "node_modules/.bin/node"
        self._process = subprocess.Popen(
            [str(node), str(script), json.dumps(wanted)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError(f"The identity provider ended with status {self._process.wait()}.")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> IdentityProvider:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _has_npm() -> bool:
    return shutil.which("npm") is not None
