"""Which addresses are public, in every spelling [2.3]."""

import socket
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from comfyrail.errors import AddressRefused
from comfyrail.network.addresses import (
    is_public,
    is_public_name,
    matches_domain,
    normal_host,
    read_address,
)
from comfyrail.network.urls import read_web_url


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "127.0.0.1.",
        "0",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "100.64.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "198.18.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "240.0.0.1",
        "::",
        "::1",
        "[::1]",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:a9fe:a9fe",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "2606:4700::5efe:10.0.0.1",
        "not an address",
        "",
    ],
)
def test_addresses_that_only_this_network_can_reach_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize(
    "address",
    [
        "1.1.1.1",
        "8.8.8.8",
        "172.32.0.1",
        "100.128.0.1",
        "134744072",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2606:4700:4700::1111",
        "2a00:1450:4001::200e",
    ],
)
def test_addresses_of_the_internet_are_public(address: str) -> None:
    assert is_public(address)


@given(number=st.integers(0, 2**32 - 1))
def test_every_spelling_of_an_address_is_judged_alike(number: int) -> None:
    a, b, c, d = number.to_bytes(4, "big")
    spellings = {
        f"{a}.{b}.{c}.{d}",
        str(number),
        hex(number),
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a:#x}.{b}.{number & 0xFFFF}",
        f"{a}.{b}.0{c:o}.{d:#x}.",
        f"::ffff:{a}.{b}.{c}.{d}",
        f"64:ff9b::{a:02x}{b:02x}:{c:02x}{d:02x}",
    }
    assert len({is_public(spelling) for spelling in spellings}) == 1


@given(text=st.from_regex(r"[0-9a-fx.]{1,20}", fullmatch=True))
def test_what_the_system_reads_as_an_address_is_read_as_the_same(text: str) -> None:
    try:
        expected = socket.inet_ntoa(socket.inet_aton(text))
    except OSError:
        return
    assert str(read_address(text)) == expected


def test_exceptions_count_as_public() -> None:
    allowed = [ip_network("127.0.0.0/8"), ip_network("::1")]
    assert is_public("127.0.0.1", allowed)
    assert is_public("::ffff:127.0.0.1", allowed)
    assert is_public("::1", allowed)
    assert not is_public("10.0.0.1", allowed)
    assert is_public_name("localhost", allowed)
    assert not is_public_name("box.local", allowed)


@pytest.mark.parametrize(
    ("host", "normal"),
    [
        ("EXAMPLE.com.", "example.com"),
        ("bücher.DE", "xn--bcher-kva.de"),
        ("ⓔxample.com", "example.com"),
        ("0x7f.1", "127.0.0.1"),
        ("[::FFFF:1.2.3.4]", "::ffff:102:304"),
        ("a_b.example", "a_b.example"),
        ("exa mple.com", None),
        ("", None),
        ("a..b", None),
        ("-a.com", None),
        ("1.2.3.4.5", None),
        ("foo.0x7f", None),
        ("999.1.1.1", None),
        ("１２７.0.0.1", None),
        ("x" * 64 + ".com", None),
        ("a." * 130 + "com", None),
    ],
)
def test_host_has_one_spelling(host: str, normal: str | None) -> None:
    assert normal_host(host) == normal


@pytest.mark.parametrize(
    ("host", "public"),
    [
        ("example.com", True),
        ("localhost", False),
        ("a.localhost", False),
        ("printer", False),
        ("nas.local", False),
        ("metadata.google.internal", False),
        ("router.home.arpa", False),
        ("127.0.0.1", False),
        ("8.8.8.8", True),
    ],
)
def test_names_of_this_network_are_not_public(host: str, public: bool) -> None:
    assert is_public_name(host) is public


def test_domains_match_as_wholes() -> None:
    assert matches_domain("example.com", "Example.COM.")
    assert matches_domain("a.b.example.com", "*.example.com")
    assert matches_domain("anything.org", "*")
    for host in ("example.com", "notexample.com", "example.com.evil.org"):
        assert not matches_domain(host, "*.example.com")
    assert not matches_domain("a.example.com", "example.com")


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.com/", "scheme"),
        ("//example.com/", "scheme"),
        ("example.com", "scheme"),
        ("http://user@example.com/", "credentials"),
        ("http://user:pass@example.com/", "credentials"),
        ("http://@example.com/", "credentials"),
        ("http://example.com\\@10.0.0.1/", "malformed"),
        ("http://exa mple.com/", "malformed"),
        ("http://example.com/\r\nX: y", "malformed"),
        ("http://example.com/\x00", "malformed"),
        ("http:///path", "malformed"),
        ("http://example.com:99999/", "malformed"),
        ("http://example.com:0/", "malformed"),
        ("http://[::1/", "malformed"),
        ("http://a..b/", "malformed"),
        ("http://example.com/" + "x" * 9000, "malformed"),
    ],
)
def test_urls_that_could_be_read_in_two_ways_are_refused(url: str, reason: str) -> None:
    with pytest.raises(AddressRefused) as caught:
        read_web_url(url)
    assert caught.value.reason == reason


def test_url_is_asked_for_as_it_was_checked() -> None:
    read = read_web_url("HTTP://0X7F.1:8080/a%20b?c=d")
    assert str(read.url) == "http://127.0.0.1:8080/a%20b?c=d"
    assert read_web_url("https://BÜCHER.de/").host == "xn--bcher-kva.de"
    assert read_web_url("https://[::FFFF:1.2.3.4]/").host == "::ffff:102:304"


@given(text=st.text() | st.text().map(lambda text: f"http://{text}"))
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        read = read_web_url(text)
    except AddressRefused:
        return
    assert read.url.scheme in {"http", "https"}
    assert read.url.host
