"""FastMCP 4 with its OAuth proxy before an issuer of others: `oauth_proxy.py ISSUER [PORT]`. Prints `ready PORT`.

The issuer is that of `oauth.py`. The proxy is an issuer itself: it registers clients, sends people on, and gives tokens
of its own, behind which it keeps those of the issuer.
"""

import socket
import sys
from typing import Any

import httpx2
from fastmcp import FastMCP
from fastmcp.server.auth import AccessToken, OAuthProxy, TokenVerifier
from fastmcp.server.dependencies import get_access_token
from serving import serve


class Verifier(TokenVerifier):
    """Asks the issuer's API whose a token is."""

    def __init__(self, issuer: str) -> None:
        super().__init__(required_scopes=["read"])
        self.issuer = issuer

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient() as client:
            answer = await client.get(f"{self.issuer}/api/me", headers={"Authorization": f"Bearer {token}"})
        if answer.status_code != 200:
            return None
        told: dict[str, Any] = answer.json()
        return AccessToken(token=token, client_id="proxy", scopes=told["scopes"], claims={"sub": told["login"]})


def made(issuer: str, own: str) -> FastMCP:
    known = httpx2.post(
        f"{issuer}/register",
        json={
            "client_name": "proxy",
            "redirect_uris": [f"{own}/auth/callback"],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": "client_secret_post",
            "scope": "read write",
        },
    ).json()
    proxy = OAuthProxy(
        upstream_authorization_endpoint=f"{issuer}/authorize",
        upstream_token_endpoint=f"{issuer}/token",
        upstream_client_id=known["client_id"],
        upstream_client_secret=known["client_secret"],
        token_endpoint_auth_method="client_secret_post",
        token_verifier=Verifier(issuer),
        base_url=own,
        valid_scopes=["read", "write"],
        jwt_signing_key="a key of the tests alone",
        require_authorization_consent=False,
        forward_resource=False,
    )
    server = FastMCP("proxied", auth=proxy)

    @server.tool
    def whoami() -> str:
        """Tell whose account this call is made with."""
        token = get_access_token()
        return str(token.claims.get("sub", "")) if token is not None else "nobody"

    return server


def main() -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    listening.listen(128)
    port = listening.getsockname()[1]
    app = made(sys.argv[1], f"http://127.0.0.1:{port}").http_app()
    serve(app, listening)


if __name__ == "__main__":
    main()
