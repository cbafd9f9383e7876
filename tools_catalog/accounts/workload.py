"""The hub's identity at its platform: a token that the platform keeps in a file and renews (SEP-1933)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from django.conf import settings

from sessions_app.protocol.authorization import AuthorizationInvalid

_MOST_BYTES: Final = 16 * 1024
_FOR_ALL: Final = "token"


def workload_token(slug: str) -> str:
    """Return the platform's token for a connection or service: the file of its name, or else the one for all.

    It is read each time, since the platform replaces it. Raises AuthorizationInvalid.
    """
    folder = settings.MCPHUB_WORKLOAD_TOKENS
    if not folder:
        raise AuthorizationInvalid(
            "The hub does not know the identity of its workload: set MCPHUB_WORKLOAD_TOKENS to the folder in which the "
            "platform keeps its tokens."
        )
    for name in (slug, _FOR_ALL):
        try:
            with (Path(folder) / name).open("rb") as file:
                raw = file.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise AuthorizationInvalid(f"The workload's token {name} cannot be read: {error.strerror}.") from error
        token = raw.decode("ascii", "replace").strip()
        if len(raw) > _MOST_BYTES or token.count(".") != 2 or not token.isprintable():
            raise AuthorizationInvalid(f"The file {name} in MCPHUB_WORKLOAD_TOKENS holds no JWT.")
        return token
    raise AuthorizationInvalid(f"MCPHUB_WORKLOAD_TOKENS holds neither a file {slug} nor one called {_FOR_ALL}.")
