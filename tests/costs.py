"""Cheaper defaults of libraries for tests: few rounds of password hashing, one look at the trusted certificates."""

from __future__ import annotations

import os
import ssl
from functools import cache


def hash_quickly() -> None:
    """Hash passwords with few rounds: a hash is half a second of a core."""
    from django.contrib.auth.hashers import PBKDF2PasswordHasher

    PBKDF2PasswordHasher.iterations = 1_000


def share_certificates() -> None:
    """Read the certificates that this machine trusts once, and not for each client: 50 ms of a core."""
    import httpcore2
    import httpx2  # noqa: F401 - it copies nothing of the default if it is imported first

    make = httpcore2.default_ssl_context

    @cache
    def made(trust_env: bool, *_: str | None) -> ssl.SSLContext:
        return make(_trust_env=trust_env)

    def shared(*, _trust_env: bool = True) -> ssl.SSLContext:
        return made(_trust_env, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))

    httpcore2.default_ssl_context = shared
