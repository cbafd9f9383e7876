"""A person's part of a login by the provider, by hand: no browser."""

from __future__ import annotations

import re
from types import TracebackType
from urllib.parse import urljoin

import httpx2

from tests.waiting import PATIENCE_SECONDS


class Visitor:
    """A browser without scripts, with the cookies of the hub and of the provider."""

    def __init__(self, hub: str) -> None:
        self.hub = hub
        self.http = httpx2.Client(timeout=PATIENCE_SECONDS)

    def __enter__(self) -> Visitor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def begins(self, address: str) -> str:
        """Press the button; give the address at the provider."""
        answer = self.http.get(self.hub + address)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    def answers(self, at_provider: str, name: str) -> str:
        """Log in at the provider, allow everything; give the address that leads back to the hub."""
        address = at_provider
        for _step in range(12):
            if address.startswith(self.hub):
                return address
            answer = self.http.get(address)
            if answer.status_code in (302, 303):
                address = urljoin(address, answer.headers["location"])
                continue
            assert answer.status_code == 200, answer.text
            form = re.search(r'action="([^"]+)"', answer.text)
            prompt = re.search(r'name="prompt" value="(\w+)"', answer.text)
            assert form is not None, answer.text
            assert prompt is not None, answer.text
            fields = {"prompt": prompt[1], **({"login": name, "password": "x"} if prompt[1] == "login" else {})}
            answer = self.http.post(urljoin(address, form[1]), data=fields)
            assert answer.status_code in (302, 303), answer.text
            address = urljoin(address, answer.headers["location"])
        raise AssertionError(f"The provider does not lead back: {address}")

    def comes_by(self, provider: str, name: str, wanted: str = "") -> httpx2.Response:
        """Go the whole way; give the hub's answer to the provider's answer."""
        query = f"?next={wanted}" if wanted else ""
        return self.http.get(self.answers(self.begins(f"/login/with/{provider}/{query}"), name))
