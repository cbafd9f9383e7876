"""Request bodies that are no message."""

from __future__ import annotations

import json

from tests.wire.speech import request

PING = b'"jsonrpc":"2.0","id":1,"method":"ping"'

BROKEN = {
    "empty": b"",
    "blank": b"   ",
    "cut off": b'{"jsonrpc":"2.0","id":1,"meth',
    "two documents": b"{%b}{%b}" % (PING, PING),
    "trailing comma": b"{%b,}" % PING,
    "single quotes": b"{'jsonrpc':'2.0'}",
    "comment": b"{%b} // ping" % PING,
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep params": b'{%b,"params":{"a":%b1%b}}' % (PING, b"[" * 70, b"]" * 70),
    "huge integer": b'{%b,"params":{"n":%b}}' % (PING, b"9" * 5000),
    "integer beyond 64 bits": b'{%b,"params":{"n":18446744073709551616}}' % PING,
    "NaN": b'{%b,"params":{"n":NaN}}' % PING,
    "Infinity": b'{%b,"params":{"n":-Infinity}}' % PING,
    "overflowing float": b'{%b,"params":{"n":1e400}}' % PING,
    "duplicate method": b'{%b,"method":"tools/call"}' % PING,
    "duplicate deep name": b'{%b,"params":{"a":{"b":1,"b":2}}}' % PING,
    "duplicate escaped name": b'{%b,"params":{"a":1,"\\u0061":2}}' % PING,
    "lone surrogate": b'{%b,"params":{"s":"\\ud800"}}' % PING,
    "not UTF-8": b'{%b,"params":{"s":"\xff"}}' % PING,
    "UTF-16": json.dumps(request("ping")).encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{%b}" % PING,
    "raw NUL": b"{%b}\x00" % PING,
    "control character in a string": b'{%b,"params":{"s":"\x01"}}' % PING,
}

BAD_NOTIFICATIONS = {
    "params array": b'{"jsonrpc":"2.0","method":"notifications/x","params":[1]}',
    "params string": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":"x"}',
    "no version": b'{"method":"notifications/x"}',
    "version 1.0": b'{"jsonrpc":"1.0","method":"notifications/x"}',
    "method empty": b'{"jsonrpc":"2.0","method":""}',
    "method and result": b'{"jsonrpc":"2.0","method":"notifications/x","result":{}}',
    "initialized with a null id": b'{"jsonrpc":"2.0","method":"notifications/initialized","id":null,"params":[]}',
}
"""What means to be a notification, and is none."""

NO_MESSAGE = {
    "array": b"[]",
    "batch": b"[{%b}]" % PING,
    "string": b'"ping"',
    "number": b"1",
    "null": b"null",
    "no version": b'{"id":1,"method":"ping"}',
    "version as a number": b'{"jsonrpc":2.0,"id":1,"method":"ping"}',
    "version 1.0": b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "id null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "id fraction": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "id boolean": b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "id object": b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    "method number": b'{"jsonrpc":"2.0","id":1,"method":1}',
    "method empty": b'{"jsonrpc":"2.0","id":1,"method":""}',
    "params array": b'{%b,"params":[1]}' % PING,
    "params string": b'{%b,"params":"x"}' % PING,
    "method and result": b'{%b,"result":{}}' % PING,
    "nothing": b'{"jsonrpc":"2.0","id":1}',
    "empty object": b"{}",
}
