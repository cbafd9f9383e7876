"""Secrets at rest: what goes in comes out, in its own place only."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_catalog import secrets

OLD, NEW = ("old", b"\x01" * 32), ("new", b"\x02" * 32)


@pytest.fixture(autouse=True)
def keys(settings) -> None:
    settings.MCPHUB_ENCRYPTION_KEYS = (NEW, OLD)


def test_any_text_survives_encryption(settings) -> None:
    @given(st.text(), st.text())
    def check(plain: str, aad: str) -> None:
        assert secrets.decrypt(secrets.encrypt(plain, aad=aad), aad=aad) == plain

    check()


def test_same_text_is_never_the_same_token() -> None:
    assert secrets.encrypt("x", aad="a") != secrets.encrypt("x", aad="a")


def test_token_moved_to_another_place_does_not_decrypt() -> None:
    token = secrets.encrypt("x", aad=secrets.binding("tools_catalog.Secret", 1, "value"))
    with pytest.raises(secrets.SecretError):
        secrets.decrypt(token, aad=secrets.binding("tools_catalog.Secret", 2, "value"))


def test_old_key_still_decrypts_and_asks_for_rotation(settings) -> None:
    settings.MCPHUB_ENCRYPTION_KEYS = (OLD,)
    token = secrets.encrypt("x", aad="a")
    settings.MCPHUB_ENCRYPTION_KEYS = (NEW, OLD)
    assert secrets.decrypt(token, aad="a") == "x"
    assert not secrets.is_current(token)
    assert secrets.is_current(secrets.encrypt("x", aad="a"))


def test_lost_key_is_named(settings) -> None:
    token = secrets.encrypt("x", aad="a")
    settings.MCPHUB_ENCRYPTION_KEYS = (OLD,)
    with pytest.raises(secrets.SecretError, match="'new'"):
        secrets.decrypt(token, aad="a")


@pytest.mark.parametrize("token", ["", "v1", "v1.new.!.?", "v2.new.AAAA.AAAA", "v1.new.AAAA.AAAA", "v1.new.é.é"])
def test_broken_token_is_one_kind_of_error(token: str) -> None:
    with pytest.raises(secrets.SecretError):
        secrets.decrypt(token, aad="a")


def test_changed_key_id_does_not_decrypt(settings) -> None:
    settings.MCPHUB_ENCRYPTION_KEYS = (("a", NEW[1]), ("b", NEW[1]))
    token = secrets.encrypt("x", aad="a")
    with pytest.raises(secrets.SecretError):
        secrets.decrypt(token.replace("v1.a.", "v1.b."), aad="a")


def test_no_key_is_an_error_that_names_the_setting(settings) -> None:
    settings.MCPHUB_ENCRYPTION_KEYS = ()
    with pytest.raises(secrets.SecretError, match="MCPHUB_ENCRYPTION_KEY_FILE"):
        secrets.encrypt("x", aad="a")


def test_fingerprint_is_equal_for_equal_secrets_and_depends_on_the_key(settings) -> None:
    first = secrets.fingerprint("secret")
    assert first == secrets.fingerprint("secret") != secrets.fingerprint("Secret")
    settings.MCPHUB_ENCRYPTION_KEYS = (("new", b"\x03" * 32),)
    assert secrets.fingerprint("secret") != first


def test_mask_shows_the_end_of_long_secrets_only() -> None:
    assert secrets.mask("sk-123456789") == "•••• 6789"
    assert secrets.mask("12345678901") == "••••"
