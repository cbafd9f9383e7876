"""An upstream that demands OAuth, and its issuer, on Python's `mcp` 2.x: `oauth.py [skills] [PORT]`.

The SDK's own server classes check tokens and serve the issuer's endpoints; the accounts behind them are made here.
Its login is one address, `/login?sign_in=…&as=NAME`, which sends the browser back at once. `/control` changes how it
behaves and tells what it counted.
"""

import asyncio
import hashlib
import json
import secrets
import socket
import sys
import time
from typing import Any
from urllib.parse import parse_qsl, urlencode

import jwt
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.shared.exceptions import MCPError
from mcp_types import RequestParams, Tool
from pydantic import ConfigDict
from serving import serve
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

SCOPES = ["read", "write"]
behaviour: dict[str, Any] = {
    "expires_in": 3600,
    "granted": None,
    "broken": "",
    "iss": None,
    "key": "",
    "audience": "",
    "unknown": [],
    "own": {},
    "holds": False,
    "identifies": 0,
    "words": {},
    "document": {},
    "skills": {},
}
"""`skills`: subject -> the SKILL.md of each skill by its name, and `files` that reads counted.
`own`: subject -> names of tools that this one alone is listed. `words`: subject -> what tools are described by.
`holds`: the token endpoint does its work, and answers once it holds no more. `broken`: html or away makes it answer so,
slow makes it do and say nothing until it is released. `document`: members that its metadata have in place of the true.
`iss`: another issuer's name in the answer. `identifies`: seconds that ID tokens last; 0: there are none."""
released = asyncio.Event()
counted: dict[str, int] = {
    "held": 0,
    "identified": 0,
    "refreshes": 0,
    "reused": 0,
    "sign_ins": 0,
    "revoked": 0,
    "believed": 0,
    "files": 0,
}


ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
JAG_KIND = "oauth-id-jag+jwt"
METADATA = "/.well-known/oauth-authorization-server"
KEY = "a key of the company that is long enough"


def _kind(token: str) -> str:
    """Return what kind of JWT an assertion is."""
    try:
        return str(jwt.get_unverified_header(token).get("typ"))
    except jwt.InvalidTokenError:
        return ""


class Accounts:
    """What the issuer knows. A refresh token works once; one that comes twice ends all tokens of its account."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.signing_in: dict[str, tuple[OAuthClientInformationFull, AuthorizationParams]] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.access: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}
        self.spent: dict[str, str] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        name = secrets.token_urlsafe(12)
        self.signing_in[name] = client, params
        return f"{self.url}/login?sign_in={name}"

    def sign_in(self, name: str, subject: str) -> str:
        client, params = self.signing_in.pop(name)
        counted["sign_ins"] += 1
        scopes = behaviour["granted"] if behaviour["granted"] is not None else params.scopes or SCOPES
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=scopes,
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=subject,
        )
        self.codes[code.code] = code
        told = {"iss": behaviour["iss"]} if behaviour["iss"] else {}
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, **told)

    async def load_authorization_code(self, client: Any, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client: Any, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(authorization_code.client_id, authorization_code.scopes, authorization_code.subject or "")

    async def load_refresh_token(self, client: Any, refresh_token: str) -> RefreshToken | None:
        if refresh_token in self.spent:
            counted["reused"] += 1
            self._forget(self.spent[refresh_token])
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client: Any, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant")
        counted["refreshes"] += 1
        self.spent[refresh_token.token] = refresh_token.subject or ""
        return self._issue(refresh_token.client_id, scopes or refresh_token.scopes, refresh_token.subject or "")

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.access.get(token)
        return found if found is not None and (found.expires_at or 0) > time.time() else None

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        counted["revoked"] += 1
        self._forget(token.subject or "")

    def _forget(self, subject: str) -> None:
        for tokens in (self.access, self.refresh):
            for name in [name for name, token in tokens.items() if token.subject == subject]:
                del tokens[name]

    def _issue(self, client_id: str, scopes: list[str], subject: str) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        seconds = behaviour["expires_in"]
        ends = int(time.time() + seconds)
        self.access[access] = AccessToken(
            token=access, client_id=client_id, scopes=scopes, expires_at=ends, subject=subject
        )
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, subject=subject)
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=max(1, int(seconds)), scope=" ".join(scopes)
        )


class Server(MCPServer):
    """One whose lists depend on the user."""

    async def list_tools(self) -> list[Tool]:
        token = get_access_token()
        subject = token.subject or "" if token is not None else ""
        others = {name for one, names in behaviour["own"].items() if one != subject for name in names}
        tools = [tool for tool in await super().list_tools() if tool.name not in others]
        if words := behaviour["words"].get(subject):
            tools = [tool.model_copy(update={"description": words}) for tool in tools]
        return tools


class SkillParams(RequestParams):
    model_config = ConfigDict(extra="allow")


class OwnSkills(Extension):
    """Skills that depend on the user."""

    identifier = "io.modelcontextprotocol/skills"

    def methods(self) -> list[MethodBinding]:
        return [
            MethodBinding("skills/list", SkillParams, self.list),
            MethodBinding("skills/get", SkillParams, self.get),
        ]

    async def list(self, _context: Any, _params: Any) -> dict[str, Any]:
        return {"skills": [self.entry(name, text) for name, text in skills_of_caller().items()]}

    async def get(self, _context: Any, params: Any) -> dict[str, Any]:
        found = {f"skill://{name}/SKILL.md": (name, text) for name, text in skills_of_caller().items()}
        if params.uri not in found:
            raise MCPError(code=-32602, message="There is no such skill.")
        return {"skill": self.entry(*found[params.uri])}

    def entry(self, name: str, text: str) -> dict[str, Any]:
        uri, raw = f"skill://{name}/SKILL.md", text.encode()
        file = {"uri": uri, "digest": f"sha256:{hashlib.sha256(raw).hexdigest()}", "size": len(raw)}
        frontmatter = {"name": name, "description": text.partition("description: ")[2].partition("\n")[0]}
        return {"uri": uri, "frontmatter": frontmatter, "resources": [file]}


def skills_of_caller() -> dict[str, str]:
    token = get_access_token()
    found: dict[str, str] = behaviour["skills"].get(token.subject if token is not None else "", {})
    return found


def made(url: str) -> tuple[MCPServer, Accounts]:
    accounts = Accounts(url)
    server = Server(
        "oauth-peer",
        auth_server_provider=accounts,
        auth=AuthSettings(
            issuer_url=url,
            resource_server_url=f"{url}/mcp",
            required_scopes=["read"],
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES),
            revocation_options=RevocationOptions(enabled=True),
            validate_token_resource=False,
        ),
        extensions=[OwnSkills()] if "skills" in sys.argv else [],
    )

    if "skills" in sys.argv:

        @server.resource("skill://{name}/SKILL.md", mime_type="text/markdown")
        def skill(name: str) -> str:
            counted["files"] += 1
            return skills_of_caller()[name]

    @server.tool()
    def whoami() -> str:
        """Tell whose account this call is made with."""
        token = get_access_token()
        return token.subject or "" if token is not None else "nobody"

    @server.tool()
    def leak() -> str:
        """Return the token of the call, as a careless server does."""
        token = get_access_token()
        return f"the token is {token.token}" if token is not None else ""

    @server.tool()
    def payroll() -> str:
        """Tell what only some accounts may see."""
        return f"payroll of {whoami()}"

    @server.resource("account://me")
    def me() -> str:
        """Whose account this is."""
        return whoami()

    @server.prompt()
    def greeting() -> str:
        """A greeting from the account."""
        return f"I am {whoami()}."

    @server.custom_route("/api/me", methods=["GET", "POST"])
    async def api_me(request: Request) -> Response:
        """An HTTP API that takes the same tokens, and knows nothing of MCP."""
        scheme, _blank, token = request.headers.get("authorization", "").partition(" ")
        found = await accounts.load_access_token(token) if scheme == "Bearer" else None
        if found is None:
            return JSONResponse({"error": "who are you?"}, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        return JSONResponse({"login": found.subject, "scopes": found.scopes, "you_sent": token})

    @server.custom_route("/login", methods=["GET"])
    async def login(request: Request) -> Response:
        name, subject = request.query_params["sign_in"], request.query_params.get("as", "")
        if not subject:
            people = "".join(
                f'<p><a id="{each}" href="/login?{urlencode({"sign_in": name, "as": each})}">I am {each}</a></p>'
                for each in ("alice", "bob")
            )
            return HTMLResponse(f"<title>Issuer</title><h1>Who are you?</h1>{people}")
        return RedirectResponse(accounts.sign_in(name, subject))

    @server.custom_route("/control", methods=["POST"])
    async def control(request: Request) -> Response:
        asked = await request.json()
        if "forget" in asked:
            accounts._forget(asked.pop("forget"))
        if asked.pop("expire", False):
            for token in accounts.access.values():
                token.expires_at = 0
        behaviour.update(asked)
        if not behaviour["holds"]:
            released.set()
        return JSONResponse({**counted, "clients": len(accounts.clients), "refresh_tokens": len(accounts.refresh)})

    return server, accounts


class Breaking:
    """Answers for the token endpoint while it is broken."""

    def __init__(self, app: Any, accounts: Accounts) -> None:
        self.app = app
        self.accounts = accounts

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"] == METADATA and behaviour["document"]:
            (_start, body) = await self._answer_of(scope, receive)
            await JSONResponse({**json.loads(body["body"]), **behaviour["document"]})(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/token" and behaviour["broken"]:
            if behaviour["broken"] == "slow":
                released.clear()
                await released.wait()
            answer = (
                HTMLResponse("<h1>Down for maintenance</h1>")
                if behaviour["broken"] == "html"
                else Response(status_code=503)
            )
            await answer(scope, receive, send)
            return
        if scope["type"] == "http" and scope["path"] == "/token":
            request = Request(scope, receive)
            body = await request.body()
            form = dict(parse_qsl(body.decode()))
            if form.get("requested_token_type") == ID_JAG or _kind(form.get("assertion", "")) == JAG_KIND:
                await self._company(form)(scope, receive, send)
                return
            statement = form.get("assertion") if "jwt-bearer" in form["grant_type"] else form.get("subject_token")
            if statement is not None:
                await self._believed(statement, form)(scope, receive, send)
                return

            async def again() -> Any:
                return {"type": "http.request", "body": body, "more_body": False}

            if behaviour["holds"] or behaviour["identifies"]:
                await self._held(scope, again, send)
                return
            await self.app(scope, again, send)
            return
        await self.app(scope, receive, send)

    async def _answer_of(self, scope: Any, receive: Any) -> list[Any]:
        """Return what would be sent."""
        messages: list[Any] = []

        async def keep(message: Any) -> None:
            messages.append(message)

        await self.app(scope, receive, keep)
        return messages

    async def _held(self, scope: Any, receive: Any, send: Any) -> None:
        """Do what is asked, and answer once that is let go."""
        released.clear()
        messages = await self._answer_of(scope, receive)
        if behaviour["holds"]:
            counted["held"] += 1
            await released.wait()
        if behaviour["identifies"] and messages[0]["status"] == 200:
            await self._with_id_token(json.loads(messages[1]["body"]))(scope, receive, send)
            return
        for message in messages:
            await send(message)

    def _with_id_token(self, told: dict[str, Any]) -> Response:
        """Say who the person is, for as long as `identifies` says."""
        counted["identified"] += 1
        subject = self.accounts.access[told["access_token"]].subject
        claims = {"sub": subject, "exp": int(time.time()) + behaviour["identifies"]}
        return JSONResponse({**told, "id_token": jwt.encode(claims, KEY, "HS256")})

    def _company(self, form: dict[str, str]) -> Response:
        """Vouch for a person to another issuer, and as that issuer take the grant (ID-JAG)."""
        try:
            if "assertion" in form:
                claims = jwt.decode(form["assertion"], KEY, ["HS256"], audience=self.accounts.url)
                told = self.accounts._issue(claims["client_id"], SCOPES, claims["sub"])
                return JSONResponse(told.model_dump(exclude={"refresh_token"}, exclude_none=True))
            person = jwt.decode(form["subject_token"], KEY, ["HS256"])["sub"]
        except jwt.InvalidTokenError as error:
            return JSONResponse({"error": "invalid_grant", "error_description": str(error)}, 400)
        if person in behaviour["unknown"]:
            return JSONResponse({"error": "access_denied", "error_description": "not for you"}, 400)
        ends = int(time.time()) + 60
        claims = {"sub": person, "aud": form["audience"], "client_id": "hub", "resource": form["resource"], "exp": ends}
        grant = jwt.encode(claims, KEY, "HS256", headers={"typ": JAG_KIND})
        return JSONResponse({"access_token": grant, "issued_token_type": ID_JAG, "token_type": "N_A"})

    def _believed(self, statement: str, form: dict[str, str]) -> Response:
        """Return a token for whom a client with a known key speaks (RFC 7523, 2.1; RFC 8693)."""
        try:
            claims = jwt.decode(
                statement, behaviour["key"], ["ES256"], audience=behaviour["audience"], issuer="the-hub"
            )
        except jwt.InvalidTokenError as error:
            return JSONResponse({"error": "invalid_grant", "error_description": str(error)}, 400)
        if claims["sub"] in behaviour["unknown"]:
            return JSONResponse({"error": "invalid_grant", "error_description": "no such person"}, 400)
        counted["believed"] += 1
        told = self.accounts._issue("the-hub", form.get("scope", "").split() or SCOPES, claims["sub"])
        return JSONResponse(
            {**told.model_dump(exclude={"refresh_token"}, exclude_none=True), "grant": form["grant_type"]}
        )


def main() -> None:
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", int(sys.argv[-1]) if len(sys.argv) > 1 else 0))
    listening.listen(128)
    port = listening.getsockname()[1]
    server, accounts = made(f"http://127.0.0.1:{port}")
    app = Breaking(server.streamable_http_app(), accounts)
    serve(app, listening)


if __name__ == "__main__":
    main()
