"""How long a task waits for its next try."""

from __future__ import annotations

from datetime import timedelta

from support import bash, dag
from tidemill.model.run.task_instances import LONGEST_RETRY_DELAY, poke_delay, retry_delay

MINUTE = timedelta(minutes=1)


def delays(**fields: object) -> list[timedelta]:
    """The delays after the first four tries of a task."""
    task = dag("d", [bash("a", "x", retries=9, retry_delay=60, **fields)]).by_id["a"]
    return [retry_delay(task, n, "d#a#key") for n in range(1, 5)]


def test_a_delay_is_the_same_each_time_without_backoff() -> None:
    assert delays() == [MINUTE] * 4


def test_backoff_doubles_and_adds_up_to_as_much_again() -> None:
    """Tasks that have failed together do not all come back together."""
    found = delays(retry_exponential_backoff=True)
    for n, delay in enumerate(found):
        assert MINUTE * 2**n < delay < MINUTE * 2 ** (n + 1)
    assert len({delay / (MINUTE * 2**n) for n, delay in enumerate(found)}) == 4


def test_the_jitter_of_backoff_is_another_for_each_task_and_the_same_for_one() -> None:
    task = dag("d", [bash("a", "x", retries=9, retry_delay=60, retry_exponential_backoff=True)]).by_id["a"]
    found = {retry_delay(task, 1, f"d#a{n}#key") for n in range(20)}
    assert len(found) == 20
    assert retry_delay(task, 1, "d#a1#key") == retry_delay(task, 1, "d#a1#key")


def test_no_number_of_tries_is_too_much_for_backoff() -> None:
    for factor in (True, 2, 100.0, 1e300):
        for n in (155, 1_025, 10**6):
            task = dag("d", [bash("a", "x", retries=10**7, retry_delay=60, retry_exponential_backoff=factor)]).by_id[
                "a"
            ]
            assert retry_delay(task, n, "d#a#key") == LONGEST_RETRY_DELAY


def test_a_factor_of_one_is_no_backoff() -> None:
    """As in Airflow: no jitter, too."""
    assert delays(retry_exponential_backoff=1.0) == [MINUTE] * 4


def test_backoff_takes_its_factor_and_keeps_its_bound() -> None:
    assert MINUTE * 27 < delays(retry_exponential_backoff=3)[3] < MINUTE * 54
    assert delays(retry_exponential_backoff=True, max_retry_delay=90)[3] == timedelta(seconds=90)
    assert delays(retry_exponential_backoff=1000)[3] == LONGEST_RETRY_DELAY


def test_pokes_back_off_to_their_bound() -> None:
    sensor = {"kind": "bash_sensor", "task_id": "a", "command": "x", "poke_interval": 60}
    plain = dag("d", [sensor]).by_id["a"]
    growing = dag("d", [{**sensor, "exponential_backoff": True, "max_wait": 200}]).by_id["a"]
    assert [poke_delay(plain, n) for n in (1, 5)] == [MINUTE, MINUTE]  # type: ignore[arg-type]
    assert [poke_delay(growing, n).total_seconds() for n in (1, 2, 3)] == [60, 120, 200]  # type: ignore[arg-type]
