"""Secrets in what is printed, in each form that people print them in by accident."""

import base64
import json
import re
from urllib.parse import quote, quote_plus

import pytest
from tidemill.activities import secrets
from tidemill.activities.attempts.lifecycle import ChildListener
from tidemill.activities.masking import MASK, MAX_SECRETS, PROCESS_MASKER, Masker, forms_of
from tidemill.activities.secrets import Connection, is_sensitive, mask_names

SECRET = 'B&Pass"éw0rd-77'


@pytest.mark.parametrize(
    "printed",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote_plus(SECRET),
        json.dumps({"password": SECRET}),
        json.dumps({"password": SECRET}, ensure_ascii=False),
        str(SECRET.encode()),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(b"user:" + SECRET.encode() + b"@host").decode(),
        base64.b64encode(b"me:" + SECRET.encode()).decode(),
        base64.urlsafe_b64encode(b"a" + SECRET.encode() * 2).decode(),
        Connection("c", "postgres", "db", "me", SECRET, "sales").get_uri(),
    ],
)
def test_a_secret_is_masked_in_the_forms_that_people_print(printed: str) -> None:
    told = Masker([SECRET]).masked(printed)
    assert MASK in told
    for form in (SECRET, quote(SECRET, safe=""), json.dumps(SECRET)[1:-1], "Pass"):
        assert form not in told
    if printed.isascii() and "Pass" not in printed:  # of what base64 makes of it, only the edges stay
        assert len(told.replace(MASK, "")) <= 16


@pytest.mark.parametrize("text", ["an ordinary line", "c2VjcmV0", "https://example.com/a?b=c&d=e", "{}"])
def test_nothing_else_is_masked(text: str) -> None:
    assert Masker([SECRET]).masked(text) == text


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("db_pass", True), ("pwd", True), ("SAS", True), ("my-password-2", True), ("passengers", False),
        ("compass", False), ("saslauth", False), ("region", False), ("tariff", True),
    ],
)  # fmt: skip
def test_what_is_a_secret_by_its_name(name: str, secret: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "_masked_names", ())
    mask_names(["Tariff"])
    assert is_sensitive(name) is secret


def test_secrets_deep_in_the_extras_of_a_connection_are_known() -> None:
    nested = {"a": [{"password": "deep-secret"}], "token": {"x": "below-a-secret"}, "region": "eu-central"}
    found = Connection("c", extra={**nested, "json": json.dumps({"api_key": "in-a-text"})}).secrets()
    assert {"deep-secret", "below-a-secret", "in-a-text"} <= {*found}
    assert "eu-central" not in found


def test_the_path_of_a_webhook_is_a_secret() -> None:
    assert "T00/B00/XXXXSECRET" in str(Connection.read("c", "https://hooks.example.com/T00/B00/XXXXSECRET").secrets())
    assert Connection.read("c", "postgres://db/sales").secrets() == [None]


def test_a_task_blinds_no_log_but_its_own() -> None:
    PROCESS_MASKER.clear()
    mine, other = ChildListener(None, Masker()), ChildListener(None, secrets.new_masker())
    mine.mask("works")
    assert mine.masker.masked("it works") == "it ***"
    assert other.masker.masked("it works") == secrets.new_masker().masked("it works") == "it works"


def test_what_is_masked_is_bounded() -> None:
    masker = Masker(["known for good"])
    for number in range(3 * MAX_SECRETS):
        masker.add(f"secret-number-{number:06}")
    assert MAX_SECRETS // 2 <= len(masker.secrets) <= MAX_SECRETS + 1
    assert masker.masked(f"known for good, secret-number-{3 * MAX_SECRETS - 1:06}") == f"{MASK}, {MASK}"


@pytest.mark.parametrize("others", [0, 200])
def test_the_longest_goes_first_wherever_it_is_known_from(others: int) -> None:
    """Few secrets are found by a pattern and many by how they begin: alike."""
    rest = [f"another-secret-{number:04}" for number in range(others)]
    long, short = "abcdefgh-and-more", "abcdefgh"
    for lasting, added in ((long, short), (short, long)):
        masker = Masker([lasting, *rest])
        masker.add(added)
        assert masker.masked(f"x{long}y {short} {rest[-1] if rest else long}") == f"x{MASK}y {MASK} {MASK}"


def test_many_secrets_are_found_as_few_are() -> None:
    secrets_ = [f"s{number}-{'x' * (number % 7)}-ecret&{number}" for number in range(300)]
    text = " ".join(f"{quote(secret, safe='')}|{secret}|{secret[:-1]}" for secret in secrets_)
    forms = sorted({form for secret in secrets_ for form in forms_of(secret)}, key=len, reverse=True)
    by_pattern = re.compile("|".join(map(re.escape, forms)))
    assert Masker(secrets_).masked(text) == by_pattern.sub(MASK, text)
