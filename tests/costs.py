"""Cheaper defaults of libraries for tests: few rounds of password hashing, one look at certificates and files,
few copies of contexts."""

from __future__ import annotations

import gc
import os
import ssl
from functools import cache

_YOUNG, _MIDDLE, _OLD = 20_000, 20, 20
"""Thresholds of the garbage collector: a look at all objects of a run is a quarter of a second."""


def collect_no_garbage() -> None:
    """Let the collector rest while tests are imported: all that is made stays."""
    gc.disable()


def collect_garbage_seldom() -> None:
    """Leave what was imported out of all later looks, which are fewer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    gc.enable()


def share_static_files() -> None:
    """Look for the static files once, and not for each client of Django's: 20 ms of a core."""
    from whitenoise.middleware import WhiteNoiseMiddleware  # type: ignore[import-untyped]

    look = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, dict[str, object]] = {}

    def shared(self: WhiteNoiseMiddleware) -> None:
        if self.static_prefix not in found:
            before = set(self.files)
            look(self)
            found[self.static_prefix] = {url: file for url, file in self.files.items() if url not in before}
        self.files.update(found[self.static_prefix])

    WhiteNoiseMiddleware.add_files_from_finders = shared


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


def keep_outer_contexts() -> None:
    """Keep, for `response.context`, what whole templates are given, not a copy for each include: a tenth of a page."""
    from django.template.base import Template
    from django.template.context import Context
    from django.test import signals, utils
    from django.utils.safestring import SafeString

    def rendered(self: Template, context: Context) -> SafeString:
        if context.template is self:
            signals.template_rendered.send(sender=self, template=self, context=context)
        return self.nodelist.render(context)

    utils.instrumented_test_render = rendered  # type: ignore[attr-defined]  # the stubs leave it out
