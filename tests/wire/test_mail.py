"""E-mail leaves through a real SMTP server, over TLS, with a name and a password."""

from __future__ import annotations

import email
from collections.abc import Iterator
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword

from tests import telling_operations as telling
from tests.features.audit_export.receivers import certificate
from tests.servers import Hub, free_port, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program


class MailServer:
    """Takes e-mail for everybody who logs in as `hub`, after STARTTLS; refuses what goes to `nobody@`."""

    def __init__(self, folder: Path) -> None:
        self.got: list[EmailMessage] = []
        context, vouching = certificate(folder)
        self.certificate = folder / "authority.pem"
        self.certificate.write_text(vouching)
        self.port = free_port()  # the library cannot tell which one it got
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            tls_context=context,
            require_starttls=True,
            authenticator=lambda server, session, envelope, mechanism, told: AuthResult(
                success=isinstance(told, LoginPassword) and (told.login, told.password) == (b"hub", b"a pass/word"),
                handled=False,
            ),
            auth_required=True,
            ready_timeout=PATIENCE_SECONDS,
        )
        self._controller.start()

    async def handle_RCPT(self, server: Any, session: Any, envelope: Envelope, address: str, options: Any) -> str:
        if address.startswith("nobody@"):
            return "550 There is no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.got.append(email.message_from_bytes(envelope.content, policy=default))
        return "250 Taken"

    def close(self) -> None:
        self._controller.stop()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MailServer]:
    made = MailServer(tmp_path_factory.mktemp("mail"))
    yield made
    made.close()


def hub_of(server: MailServer, folder: Path, password: str = "a%20pass%2Fword") -> Hub:
    address = f"smtp+tls://hub:{password}@localhost:{server.port}"
    return Hub(folder, environment={"MCPHUB_MAIL_URL": address, "SSL_CERT_FILE": str(server.certificate)})


@pytest.fixture(scope="module")
def hub(server: MailServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with hub_of(server, tmp_path_factory.mktemp("hub")) as running:
        yield running


def test_a_notice_arrives_at_a_mailbox(hub: Hub, server: MailServer) -> None:
    hub.operate(telling.subscribe, "email", "chief@example.org", name="mail", kinds=["tool.slow"])
    hub.operate(telling.note, "tool.slow", "slow", tool="shop.buy")
    (mail,) = until(lambda: list(server.got))
    assert (mail["To"], mail["Auto-Submitted"]) == ("chief@example.org", "auto-generated")
    assert "shop.buy" in mail.get_content()


def test_a_mailbox_that_is_refused_is_said(hub: Hub) -> None:
    assert "There is no such mailbox" in error_of(hub, "nobody@example.org")


def test_a_wrong_password_is_said(server: MailServer, tmp_path: Path) -> None:
    with hub_of(server, tmp_path, password="another") as hub:
        assert "The mail server did not take it: (535" in error_of(hub, "chief@example.org")


def error_of(hub: Hub, address: str) -> str:
    """Return what the first delivery to an address failed with."""
    number = hub.operate(telling.subscribe, "email", address, name=address, kinds=["tool.errors"])
    hub.operate(telling.note, "tool.errors", address, tool="shop.buy")
    until(lambda: hub.operate(telling.deliveries, subscription=number)[0]["tries"] >= 1)
    return str(hub.operate(telling.deliveries, subscription=number)[0]["error"])
