"""How secrets of clients are kept. They are long and random, so one round of SHA-256 guards them as a slow hash would,
and a flood of wrong ones does not take the processor from logins."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

from django.contrib.auth.hashers import BasePasswordHasher


class ClientSecretHasher(BasePasswordHasher):
    """Never the one of people's passwords: those get the first of PASSWORD_HASHERS."""

    algorithm = "client_secret"

    def encode(self, password: str, salt: str) -> str:
        return f"{self.algorithm}${salt}${hashlib.sha256(f'{salt}{password}'.encode()).hexdigest()}"

    def decode(self, encoded: str) -> dict[str, Any]:
        algorithm, salt, digest = encoded.split("$", 2)
        return {"algorithm": algorithm, "salt": salt, "hash": digest}

    def verify(self, password: str, encoded: str) -> bool:
        return hmac.compare_digest(encoded, self.encode(password, self.decode(encoded)["salt"]))

    def safe_summary(self, encoded: str) -> dict[Any, Any]:
        return {"algorithm": self.algorithm}
