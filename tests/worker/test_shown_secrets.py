"""What of a connection is shown: nothing that is secret, however deep it is."""

import json
from typing import Any

from tidemill.activities.secrets import Connection
from tidemill.worker.service.shown_secrets import HIDDEN, fields_of

EXTRA: dict[str, Any] = {
    "token": {"x": "below-a-secret", "n": 7},
    "nested": [{"password": "deep-secret", "region": "eu"}],
    "text": json.dumps({"api_key": "in-a-text"}),
    "pwd": "abc",
    "region": "eu",
}


def test_secrets_are_hidden_wherever_they_are() -> None:
    fields = fields_of(Connection("c", "https", "hooks", password="word", schema="T0/B0/SECRET-PART", extra=EXTRA))
    assert fields["password"] == fields["schema"] == HIDDEN
    assert fields["extra"] == {
        "token": {"x": HIDDEN, "n": HIDDEN},
        "nested": [{"password": HIDDEN, "region": "eu"}],
        "text": json.dumps({"api_key": HIDDEN}),
        "pwd": HIDDEN,
        "region": "eu",
    }


def test_they_are_shown_to_whoever_asks_for_them() -> None:
    assert fields_of(Connection("c", extra=EXTRA), shown=True)["extra"] == EXTRA
    assert fields_of(Connection("c", "postgres", schema="sales"))["schema"] == "sales"
