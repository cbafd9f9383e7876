"""An object store on loopback (moto's server), and its client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

KEYS = {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret"}


@contextlib.contextmanager
def object_store() -> Iterator[str]:
    """Yield the address of an S3 on loopback."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def client(url: str) -> Any:
    import boto3
    from botocore.config import Config

    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="id",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}, proxies={}),
    )
