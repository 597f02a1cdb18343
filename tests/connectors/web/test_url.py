from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.connectors.web.config import WebConfig
from headwater.connectors.web.url import Url, check
from headwater.rules.errors import BadUrl

PUBLIC = WebConfig()
LOCAL = WebConfig(allow_http=True, allow_networks=("127.0.0.0/8", "::1/128"))


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://hooks.example.org", Url("https", "hooks.example.org", 443, "/")),
        ("https://Hooks.Example.org:8443/a/b?c=d#e", Url("https", "hooks.example.org", 8443, "/a/b?c=d")),
        ("https://bücher.example/ü?q=ä", Url("https", "xn--bcher-kva.example", 443, "/%C3%BC?q=%C3%A4")),
        ("https://[2606:4700::1111]/x", Url("https", "2606:4700::1111", 443, "/x")),
        ("https://example.org./a%20b", Url("https", "example.org", 443, "/a%20b")),
    ],
)
def test_a_public_url_is_taken_apart(url: str, parts: Url) -> None:
    assert check(url, PUBLIC) == parts


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("http://example.org/", "scheme"),
        ("ftp://example.org/", "scheme"),
        ("file:///etc/passwd", "scheme"),
        ("gopher://127.0.0.1:6379/_", "scheme"),
        ("example.org/hook", "scheme"),
        ("", "scheme"),
        ("https://", "no host"),
        ("https:///path", "no host"),
        ("https://user:secret@example.org/", "credentials"),
        ("https://example.org@127.0.0.1/", "credentials"),
        ("https://127.0.0.1/", "loopback"),
        ("https://127.0.0.1:8080/", "loopback"),
        ("https://localhost/", "loopback"),
        ("https://api.localhost./", "loopback"),
        ("https://[::1]/", "not a public"),
        ("https://[::ffff:10.0.0.1]/", "private"),
        ("https://[fe80::1%25eth0]/", "neither|one link|not a public"),
        ("https://169.254.169.254/latest/meta-data/", "link-local"),
        ("https://2130706433/", "neither a name nor an address"),
        ("https://0x7f.1/", "neither a name nor an address"),
        ("https://127.1/", "neither a name nor an address"),
        ("https://exam ple.org/", "space"),
        ("https://example.org/\r\nX-Evil: 1", "control"),
        ("https://example.org\\@127.0.0.1/", "may not hold"),
        ("https://example.org:0/", "port"),
        ("https://example.org:99999/", "[Pp]ort"),
        ("https://example.org:port/", "[Pp]ort"),
        ("https://-bad-.example/", "no name"),
        ("https://" + "a" * 64 + ".example/", "no name"),
        ("https://a..example/", "no name"),
        ("https://[::1/", "Invalid IPv6"),
        ("https://example.org/" + "a" * 2_048, "characters"),
    ],
)
def test_a_url_that_leads_elsewhere_is_refused_by_the_name_of_its_field(url: str, wrong: str) -> None:
    with pytest.raises(BadUrl, match=f"^webhook_url is not taken: .*({wrong})") as refused:
        check(url, PUBLIC, field="webhook_url")
    assert refused.value.facts["field"] == "webhook_url"


@given(st.text(max_size=60).map("https://".__add__) | st.text(max_size=80))
def test_any_text_is_a_url_or_is_refused(text: str) -> None:
    try:
        parts = check(text, PUBLIC)
    except BadUrl:
        return
    assert parts.scheme == "https"
    assert (parts.host + parts.target).isascii()
    assert parts.target.isprintable()
    assert parts.target.startswith("/")
    assert not set(parts.host) & set("/?#@\\ ")


def test_settings_may_allow_networks_and_plain_http() -> None:
    assert check("http://127.0.0.1:8080/hook", LOCAL) == Url("http", "127.0.0.1", 8080, "/hook")
    assert check("http://[::1]:8080/hook", LOCAL).authority == "[::1]:8080"
    assert check("http://localhost/", LOCAL).authority == "localhost"
    with pytest.raises(BadUrl, match="link-local"):
        check("http://169.254.169.254/", LOCAL)


def test_settings_that_are_no_networks_are_refused() -> None:
    with pytest.raises(ValueError, match="'localhost' does not appear to be an IPv4 or IPv6 network"):
        WebConfig(allow_networks=("localhost",))
