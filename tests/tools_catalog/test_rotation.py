"""Every row that keeps a secret for long can be encrypted anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.conf import LazySettings
from django.db.models import Model

from tools_catalog import secrets
from tools_catalog.models import Secret

KEEPS = {"ciphertext", "access", "refresh"}
"""Columns of long-lived secrets; messages and answers to come have others, and end with their rows."""


def keeping() -> Iterator[type[Model]]:
    for model in apps.get_models():
        if KEEPS & {field.name for field in model._meta.fields if not field.editable}:
            yield model


def test_every_model_that_keeps_secrets_takes_part_in_a_rotation() -> None:
    assert [model._meta.label for model in keeping() if not hasattr(model, "encrypt_anew")] == []
    assert Secret in set(keeping())


def test_a_secret_moves_to_the_first_key_once(settings: LazySettings) -> None:
    old, new = ("old", b"\x01" * 32), ("new", b"\x02" * 32)
    settings.MCPHUB_ENCRYPTION_KEYS = (old,)
    secret = Secret(name="house", origins="https://api.example")
    secret.set_value("s3cret-of-the-house")
    settings.MCPHUB_ENCRYPTION_KEYS = (new, old)
    assert secret.encrypt_anew() == ["ciphertext", "fingerprint"]
    assert secret.encrypt_anew() == []
    settings.MCPHUB_ENCRYPTION_KEYS = (new,)
    assert secret.value() == "s3cret-of-the-house"


def test_a_secret_whose_key_is_gone_is_said(settings: LazySettings) -> None:
    settings.MCPHUB_ENCRYPTION_KEYS = (("old", b"\x01" * 32),)
    secret = Secret(name="house", origins="https://api.example")
    secret.set_value("s3cret-of-the-house")
    settings.MCPHUB_ENCRYPTION_KEYS = (("new", b"\x02" * 32),)
    with pytest.raises(secrets.SecretError, match="Put it back"):
        secret.encrypt_anew()
