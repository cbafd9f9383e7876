"""What a client without a browser does when its person must sign in: it says where, and waits for the answer."""

import asyncio
from urllib.parse import parse_qs, urlsplit


class Callback:
    """The address that the person's browser comes back to."""

    def __init__(self):
        self.told = asyncio.get_event_loop().create_future()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"http://127.0.0.1:{port}/callback"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _answer(self, reader, writer):
        line = (await reader.readline()).decode()
        query = parse_qs(urlsplit(line.split()[1]).query)
        body = b"<!doctype html><title>Done</title><p>You may close this page."
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
        if "code" in query or "error" in query:
            self.told.set_result({name: values[0] for name, values in query.items()})


class Memory:
    """What the client keeps: nothing, but while it runs."""

    tokens = None
    client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


async def visit(address):
    print(f"visit {address}", flush=True)
