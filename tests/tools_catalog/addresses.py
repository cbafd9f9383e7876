"""Addresses that lead inside, those that do not, and URLs that hide where they lead."""

from __future__ import annotations

CLOSED = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254",
    "168.63.129.16", "169.254.169.254", "172.16.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1",
    "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::a00:1", "100::1", "2001::1", "2001:0:7f00:1::",
    "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254",
    "fe80::1", "fec0::1", "ff02::1", "4000::1",
]  # fmt: skip
OPEN = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"]

ODD_URLS = [
    "file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "example.com", "//example.com/",
    "http://", "http:///path", "http://:80/", "http://user@example.com/", "http://user:pw@example.com/",
    "http://example.com.", "http://127.0.0.1./", "http://2130706433/", "http://0x7f000001/", "http://0x7f.1/",
    "http://0177.0.0.1/", "http://127.1/", "http://127.0.1/", "http://0/", "http://1.2.3.4.5/",
    "http://256.1.1.1/", "http://[::1]/", "http://[fe80::1%25eth0]/", "http://[2606:4700::1%eth0]/",
    "http://[::ffff:7f00:1]/", "http://127。0。0。1/", "http://１２７.0.0.1/", "http://①②⑦.0.0.1/",
    "http://localhost/", "http://LOCALHOST:80/", "http://a.localhost/", "http://example.com:0/",
    "http://example.com:65536/", "http://exa mple.com/", "http://example.com\\@127.0.0.1/",
    "http://example.com/\r\nHost: x", "http://exam%70le.com/", "http://a..b/", "http://[::1", "http://*/",
    "http://-/", "http://169.254.169.254/latest/meta-data", "http://2001:db8::1/",
]  # fmt: skip
