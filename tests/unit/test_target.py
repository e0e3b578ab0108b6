"""What a URL may say, and that no error message ever shows a password."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rota.connection import parse_url
from rota.connection.target import Address, Target
from rota.errors import ConfigError

H = Address("h", 6379)
LOCAL = Address("localhost", 6379)
V6 = Address("::1", 7)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://h", {"addresses": (H,)}),
        ("redis://", {"addresses": (LOCAL,)}),
        ("redis:///2", {"addresses": (LOCAL,), "db": 2}),
        ("REDIS://H:7", {"addresses": (Address("h", 7),)}),
        ("valkey://h/3", {"addresses": (H,), "db": 3}),
        ("redis://h/?db=4", {"addresses": (H,), "db": 4}),
        ("redis://[::1]:7/0", {"addresses": (V6,)}),
        ("rediss://h", {"addresses": (H,), "tls": True}),
        ("valkeys://h", {"addresses": (H,), "tls": True}),
        ("redis://u@h", {"addresses": (H,), "username": "u"}),
        ("redis://:p%40%2F%23@h", {"addresses": (H,), "password": "p@/#"}),
        ("redis://u:p@h", {"addresses": (H,), "username": "u", "password": "p"}),
        ("unix:///run/s", {"addresses": (Address(path="/run/s"),)}),
        ("unix:///a%20b?db=2", {"addresses": (Address(path="/a b"),), "db": 2}),
        ("unix://u:p@/s", {"addresses": (Address(path="/s"),), "username": "u", "password": "p"}),
        ("unix:///s?password=p", {"addresses": (Address(path="/s"),), "password": "p"}),
        ("redis+cluster://h", {"kind": "cluster", "addresses": (H,)}),
        ("redis+cluster://h/0", {"kind": "cluster", "addresses": (H,)}),
        ("valkey+cluster://u:p@h,[::1]:7",
         {"kind": "cluster", "addresses": (H, V6), "username": "u", "password": "p"}),
        ("rediss+cluster://h", {"kind": "cluster", "addresses": (H,), "tls": True}),
        ("redis+sentinel://h,g:2/main/5",
         {"kind": "sentinel", "addresses": (Address("h", 26379), Address("g", 2)),
          "service": "main", "db": 5}),
        ("valkeys+sentinel://h/main",
         {"kind": "sentinel", "addresses": (Address("h", 26379),), "service": "main", "tls": True}),
        ("embedded:/data", {"kind": "embedded", "directory": Path("/data")}),
        ("embedded:///data", {"kind": "embedded", "directory": Path("/data")}),
        ("embedded:/a#b", {"kind": "embedded", "directory": Path("/a#b")}),
        ("embedded:/d?fsync=always",
         {"kind": "embedded", "directory": Path("/d"), "fsync": "always"}),
    ],
)  # fmt: skip
def test_a_url_is_read(url: str, expected: dict[str, Any]) -> None:
    target = parse_url(url)
    plain: dict[str, Any] = {
        "kind": "single", "addresses": (), "db": 0, "username": None, "password": None,
        "tls": False, "service": "", "directory": Path(), "fsync": "no",
    }  # fmt: skip
    found = {name: getattr(target, name) for name in plain}
    assert found == plain | expected


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "expected one of redis://"),
        ("h", "expected one of redis://"),
        ("h:6379", "expected one of redis://"),
        ("//h", "expected one of redis://"),
        ("http://h", "expected one of redis://"),
        ("redis:h", "expected one of redis://"),
        ("unix:/s", "expected one of redis://"),
        ("redis+bogus://h", "expected one of redis://"),
        ("redis://h:0", "a port from 1 to 65535"),
        ("redis://h:-1", "a port from 1 to 65535"),
        ("redis://h:65536", "a port from 1 to 65535"),
        ("redis://h:x", "a port from 1 to 65535"),
        ("redis://[::1", "cannot be read"),
        ("redis+cluster://[::1],[::2", "url: "),
        ("redis://h o", "expected the name of a host"),
        ("redis://h\n", "printable"),
        ("redis://h\0", "printable"),
        ("redis://h/x", "a database number"),
        ("redis://h/-1", "a database number"),
        ("redis://h/1.5", "a database number"),
        ("redis://h/٣", "a database number"),
        ("redis://h/0/1", "a database number"),
        ("redis://h/" + "9" * 5000, "a database number"),
        ("redis://h?db=", "the database once"),
        ("redis://h/1?db=2", "the database once"),
        ("redis://h?ssl=1", "unknown option ssl"),
        ("redis://h?x", "cannot be read"),
        ("redis://h/0#1", "cannot be read"),
        ("redis://a,b", "expected one host"),
        ("redis+cluster://a,,b", "a host between the commas"),
        ("redis+cluster://h/1", "database 0 only"),
        ("redis+sentinel://h", "redis\\+sentinel://host:port/service"),
        ("redis+sentinel://h/s/x", "a database number"),
        ("unix://", "unix:///path/to/socket"),
        ("unix://run/s", "unix:///path/to/socket"),
        ("unix:///s%00", "unix:///path/to/socket"),
        ("embedded:", "expected embedded:PATH"),
        ("embedded:?fsync=always", "expected embedded:PATH"),
        ("embedded://data", "expected embedded:PATH"),
        ("embedded:d?fsync=everysec", "expected embedded:PATH"),
        ("embedded:d?fsync", "expected embedded:PATH"),
        ("embedded:d?x=1", "expected embedded:PATH"),
        ("embedded:a\0b", "printable"),
    ],
)  # fmt: skip
def test_a_wrong_url_is_refused_with_what_was_expected(url: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        parse_url(url)
    assert str(caught.value).startswith("url: ")


def test_certificates_and_the_login_of_sentinels_are_read(tmp_path: Path) -> None:
    for name in ("c.pem", "k.pem", "ca pem"):
        (tmp_path / name).touch()
    own = f"ssl_certfile={tmp_path}/c.pem&ssl_keyfile={tmp_path}/k.pem"
    options = f"{own}&ssl_ca_certs={tmp_path}/ca%20pem"
    files = (f"{tmp_path}/c.pem", f"{tmp_path}/k.pem", f"{tmp_path}/ca pem")
    for url in ("rediss://h", "valkeys+cluster://h", "rediss+sentinel://h/main"):
        assert parse_url(f"{url}?{options}").files == files
    url = "redis+sentinel://u:p@h/main?sentinel_username=s&sentinel_password=SECRET%40"
    target = parse_url(url)
    assert (target.username, target.password) == ("u", "p")
    assert (target.sentinel_username, target.sentinel_password) == ("s", "SECRET@")
    assert "SECRET" not in repr(target)
    assert parse_url("redis+sentinel://:p@h/main").sentinel_password is None


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("redis://h?ssl_ca_certs=/dev/null", "expected rediss:// with ssl_ca_certs"),
        ("redis+cluster://h?ssl_certfile=/dev/null", "expected rediss:// with ssl_certfile"),
        ("unix:///s?ssl_ca_certs=/dev/null", "unknown option ssl_ca_certs"),
        ("rediss://h?ssl_keyfile=/dev/null", "expected ssl_certfile with ssl_keyfile"),
        ("rediss://h?ssl_ca_certs=", "ssl_ca_certs: expected a file"),
        ("rediss://h?ssl_ca_certs=/nonexistent", "ssl_ca_certs: expected a file"),
        ("rediss://h?ssl_certfile=/etc", "ssl_certfile: expected a file"),
        ("redis://h?sentinel_password=SECRET", "unknown option sentinel_password"),
        ("redis+sentinel://h/s?sentinel_username=u", "sentinel_username with a password"),
        ("redis+sentinel://h/s?sentinel_passwort=SECRET", "unknown option"),
    ],
)
def test_wrong_options_of_a_url_are_refused(url: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        parse_url(url)
    assert "password=SECRET" not in str(caught.value)


@pytest.mark.parametrize("url", [None, 5, b"redis://h", Path("x"), ["redis://h"]])
def test_what_is_not_text_is_refused(url: Any) -> None:
    with pytest.raises(ConfigError, match="url: expected text, given"):
        parse_url(url)


SECRETS = [
    "redis://u:SECRET@h/x", "redis://:SECRET@h:x", "redis://:SECRET@h/0#f", "redis://:1#SECRET@h",
    "redis://:1?SECRET@h", "redis://:1/SECRET@h", "redis://:a@SECRET@h", "redis://u:SECRET℀@h",
    "http://u:SECRET@h", "foo:SECRET@h", "redis:u:SECRET@h", "redis://:SECRET@[::1",
    "unix:///s?password=SECRET&x=1", "unix:///s?x=1&PASSWORD=SECRET", "redis://h?password=SECRET",
    "redis+cluster://u:SECRET@a,u:SECRET@b", "redis+cluster://u:SECRET@a/1", "redis://:SECRET@\n",
    "redis+sentinel://u:SECRET@h", "redis://u:SECRET@a,b", "redis+cluster://u:SECRET@a,,b",
]  # fmt: skip


@pytest.mark.parametrize("url", SECRETS)
def test_an_error_shows_no_password(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_url(url)
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["redis://u:SECRET@h", "unix://u:SECRET@/s", "unix:///s?password=SECRET",
            "redis+cluster://:SECRET@a,b", "redis+sentinel://u:SECRET@h/s"]
)  # fmt: skip
def test_what_is_displayed_shows_no_password(url: str) -> None:
    target = parse_url(url)
    assert target.password == "SECRET"
    assert "SECRET" not in target.display
    assert "SECRET" not in repr(target)


@given(st.text(max_size=40))
@example("redis://\ud800")
@example("unix://[")
def test_any_text_after_a_scheme_is_read_or_refused(rest: str) -> None:
    for scheme in ("redis://", "unix://", "redis+cluster://", "redis+sentinel://", "embedded:"):
        try:
            assert isinstance(parse_url(scheme + rest), Target)
        except ConfigError as error:
            str(error).encode()


def test_an_embedded_path_counts_from_where_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = parse_url("embedded:data")
    monkeypatch.chdir("/")
    assert target.directory == tmp_path / "data"
    assert target.display == f"embedded:{tmp_path}/data"


def test_an_embedded_path_may_begin_at_home() -> None:
    assert parse_url("embedded:~/q").directory == Path(os.path.expanduser("~/q"))
