"""What is parsed when, and whose a DAG is: pure decisions over listings and parses in any order."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import at
from tidemill.model.bundle.data import BundleSettings, Listing, ParsedDag, ParseResult
from tidemill.model.bundle.state import BundleState

NOW = at("2026-01-01")
FILES = ["a.py", "b.py", "c.py"]
DAGS = ["x", "y", "z"]


def state(**fields: object) -> BundleState:
    return BundleState(settings=BundleSettings.model_validate({"name": "b", "path": "/dags", **fields}))


def listing(**files: str) -> Listing:
    return Listing(digest=str(sorted(files.items())), files={f"{name}.py": digest for name, digest in files.items()})


def result(digest: str, *dag_ids: str, error: str | None = None) -> ParseResult:
    dags = tuple(ParsedDag(dag_id=dag_id, version=f"{digest}-{dag_id}") for dag_id in dag_ids)
    return ParseResult(digest=digest, dags=dags, error=error, seconds=0.1)


def test_a_file_is_parsed_once_for_each_content_and_not_too_often() -> None:
    bundle = state(min_file_process_interval=30)
    bundle.take_listing(listing(a="1"), NOW)
    assert bundle.next_parses(NOW, ()) == ["a.py"]
    assert bundle.next_parses(NOW, {"a.py"}) == [], "never twice at once"
    bundle.parsed("a.py", result("1", "x"), NOW)
    assert bundle.next_parses(NOW, ()) == []
    bundle.take_listing(listing(a="2"), NOW)
    soon, later = NOW + timedelta(seconds=29), NOW + timedelta(seconds=30)
    assert (bundle.next_parses(soon, ()), bundle.next_parses(later, ())) == ([], ["a.py"])
    assert bundle.next_wake(soon, ()) == later
    bundle.force()
    assert bundle.next_parses(soon, ()) == ["a.py"]


def test_slow_files_leave_room_for_others() -> None:
    bundle = state(parsing_processes=2)
    bundle.take_listing(listing(a="1", b="1", c="1"), NOW)
    assert bundle.next_parses(NOW, {"a.py"}) == ["b.py"]
    assert bundle.next_parses(NOW, {"a.py", "b.py"}) == []


def test_an_import_error_is_told_and_taken_back() -> None:
    bundle = state()
    bundle.take_listing(listing(a="1"), NOW)
    bundle.parsed("a.py", result("1", "x"), NOW)
    assert bundle.registrations(NOW, ()) == {"a.py": ["x"]}
    bundle.registered("x", "1-x", None)
    assert bundle.file_states(NOW) == {}
    bundle.take_listing(listing(a="2"), NOW)
    bundle.parsed("a.py", result("2", error="broken"), NOW)
    told = bundle.file_states(NOW)
    assert (told["x"].import_error, told["x"].stops) == ("broken", True)
    bundle.record_states(told)
    assert bundle.file_states(NOW) == {}
    bundle.parsed("a.py", result("3", "x"), NOW)
    assert bundle.file_states(NOW) == {}, "it goes on with the new version, not with the one before"
    bundle.registered("x", "3-x", None)
    assert bundle.file_states(NOW)["x"].import_error is None


def test_what_a_parse_says_late_hides_no_newer_listing() -> None:
    bundle = state()
    bundle.take_listing(listing(a="1"), NOW)
    bundle.take_listing(listing(a="2"), NOW)
    bundle.parsed("a.py", result("1", "x"), NOW)
    assert bundle.list_question().known is None, "the next listing has to tell all"
    bundle.take_listing(listing(a="2"), NOW)
    assert bundle.wants_parse("a.py")


def test_trouble_that_is_not_the_files_stops_nothing_and_is_tried_again() -> None:
    bundle = state(min_file_process_interval=30)
    bundle.take_listing(listing(a="1"), NOW)
    bundle.parsed("a.py", result("1", "x"), NOW)
    bundle.registered("x", "1-x", None)
    bundle.force()
    bundle.not_parsed("a.py", "the store is away", NOW)
    assert "the store is away" in str(bundle.error_of("a.py"))
    assert bundle.file_states(NOW) == {}
    assert bundle.next_wake(NOW, ()) == NOW + timedelta(seconds=30)
    bundle.parsed("a.py", result("1", "x"), NOW)
    assert bundle.error_of("a.py") is None


def test_an_idle_bundle_sleeps_while_it_is_listed() -> None:
    bundle = state()
    assert bundle.next_wake(NOW, ()) is None


def test_a_dag_that_could_not_be_asked_is_asked_again() -> None:
    bundle = state()
    bundle.take_listing(listing(a="1"), NOW)
    bundle.parsed("a.py", result("1", "x", "y"), NOW)
    bundle.registered("y", "1-y", None)
    bundle.not_registered("x", "its workflow has not answered", NOW)
    soon = NOW + timedelta(minutes=1)
    assert "has not answered" in str(bundle.error_of("a.py"))
    assert bundle.registrations(NOW, ()) == {}
    assert bundle.next_parses(NOW, ()) == ["a.py"]  # its version may be lost
    bundle.parsed("a.py", result("1", "x", "y"), NOW)
    assert bundle.next_wake(NOW, ()) <= soon
    assert bundle.registrations(soon, ()) == {"a.py": ["x"]}
    bundle.registered("x", "1-x", None)
    assert bundle.error_of("a.py") is None
    assert bundle.registrations(soon, ()) == {}


def test_stale_only_after_the_threshold() -> None:
    bundle = state(stale_dag_threshold=50)
    bundle.take_listing(listing(a="1"), NOW)
    bundle.parsed("a.py", result("1", "x"), NOW)
    bundle.registered("x", "1-x", None)
    bundle.take_listing(listing(), NOW)
    assert bundle.file_states(NOW + timedelta(seconds=49)) == {}
    assert bundle.file_states(NOW + timedelta(seconds=50))["x"].is_stale


events = st.one_of(
    st.tuples(st.just("list"), st.dictionaries(st.sampled_from(FILES), st.sampled_from("123"))),
    st.tuples(
        st.just("parse"), st.sampled_from(FILES), st.sets(st.sampled_from(DAGS)), st.booleans(), st.sampled_from("123")
    ),
)


@settings(max_examples=300)
@given(st.lists(events, max_size=30))
def test_every_dag_has_one_owner_that_defines_it_or_is_gone(history: list[tuple[object, ...]]) -> None:
    bundle = state(mass_removal_threshold=0)  # each listing is believed
    files: dict[str, str] = {}
    for event in history:
        if event[0] == "list":
            files = dict(event[1])  # type: ignore[call-overload]
            look(bundle, files)
        elif event[1] in bundle.files:
            path, digest = str(event[1]), str(event[4])  # of an older content, or of a newer one
            dag_ids = sorted(event[2])  # type: ignore[call-overload]
            bundle.parsed(path, result(digest, *dag_ids, error="broken" if event[3] else None), NOW)
        defined = {dag_id: [p for p in bundle.files if dag_id in bundle.files[p].dags] for dag_id in bundle.dags}
        for dag_id, owned in bundle.dags.items():
            assert (owned.gone_since is None) == bool(defined[dag_id])
            assert owned.gone_since is not None or owned.path in defined[dag_id]
            for path in defined[dag_id]:
                disputed = path != owned.path and bundle.files[path].error is None
                assert not disputed or "is defined by" in (bundle.error_of(path) or "")
        assert BundleState.model_validate(bundle.model_dump(mode="json")) == bundle
    # Left in peace, it comes to know what is there.
    look(bundle, files)
    while waiting := [path for path in files if bundle.wants_parse(path)]:
        bundle.parsed(waiting[0], result(files[waiting[0]]), NOW)
        look(bundle, files)
    assert {path: record.digest for path, record in bundle.files.items()} == files


def look(bundle: BundleState, files: dict[str, str]) -> None:
    """Lists *files*, as the activity does: without them, if the bundle knows their digest."""
    unchanged = bundle.list_question().known == str(files)
    bundle.take_listing(Listing(digest=str(files), files=None if unchanged else files), NOW)


# A folder that lies


def many(*gone: int, n: int = 6) -> Listing:
    """The listing of a folder of *n* files, of which some are gone."""
    return listing(**{f"f{i}": "1" for i in range(n) if i not in gone})


def of_many(n: int = 6) -> BundleState:
    bundle = state()
    bundle.take_listing(many(n=n), NOW)
    for i in range(n):
        bundle.parsed(f"f{i}.py", result("1", f"d{i}"), NOW)
        bundle.registered(f"d{i}", f"1-d{i}", None)
    return bundle


@pytest.mark.parametrize("gone", [[0], [0, 1], [0, 1, 2]])
def test_some_files_that_are_gone_are_gone(gone: list[int]) -> None:
    bundle = of_many()
    bundle.take_listing(many(*gone), NOW)
    assert (len(bundle.files), bundle.problem) == (6 - len(gone), None)


def test_the_only_file_that_is_gone_is_gone() -> None:
    bundle = of_many(1)
    bundle.take_listing(many(0, n=1), NOW)
    assert (bundle.files, bundle.problem) == ({}, None)


@pytest.mark.parametrize(("n", "gone", "left"), [(6, 4, 2), (6, 6, 0), (2, 2, 0), (5, 3, 2)])
def test_most_files_are_not_believed_to_be_gone_at_once(n: int, gone: int, left: int) -> None:
    """A lost mount leaves an empty folder: DAGs go on for an hour, and the bundle says what it sees."""
    bundle = of_many(n)
    later = NOW + timedelta(minutes=59)
    for now in (NOW, later):
        bundle.take_listing(many(*range(gone), n=n), now)
        assert len(bundle.files) == n
        told = f"{left} of {n} files are left in /dags: is everything mounted there? Until 2026-01-01T01:00:00+00:00"
        assert (bundle.problem or "").startswith(told)
        assert bundle.digest is None, "it is looked at again"
        assert bundle.file_states(now + timedelta(minutes=1)) == {}
    bundle = BundleState.model_validate_json(bundle.model_dump_json())
    bundle.take_listing(many(*range(gone), n=n), NOW + timedelta(hours=1))
    assert (len(bundle.files), bundle.problem) == (left, None)


def test_files_that_are_back_are_as_before() -> None:
    bundle = of_many()
    bundle.take_listing(many(*range(6)), NOW)
    bundle.take_listing(many(), NOW + timedelta(minutes=59))
    assert (len(bundle.files), bundle.problem) == (6, None)
    bundle.take_listing(many(*range(6)), NOW + timedelta(minutes=61))
    assert bundle.problem is not None, "the time begins anew"


def test_a_person_says_that_the_files_are_meant_to_be_gone() -> None:
    bundle = of_many()
    bundle.take_listing(many(*range(6)), NOW)
    bundle.confirm_removals()
    bundle.take_listing(many(*range(6)), NOW)
    assert (bundle.files, bundle.problem) == ({}, None)
    bundle = of_many()
    bundle.confirm_removals()
    bundle.take_listing(many(), NOW)
    bundle.take_listing(many(*range(6)), NOW)
    assert bundle.problem is not None, "it was said of one listing"


def test_nothing_is_removed_where_nobody_could_look() -> None:
    bundle = state()
    bundle.take_listing(Listing(digest="a", files={"a.py": "1", "sub/b.py": "1", "sub2/c.py": "1"}), NOW)
    partly = Listing(digest="b", files={"a.py": "1"}, warnings=("sub cannot be listed: Permission denied",))
    bundle.take_listing(partly.model_copy(update={"unreadable": ("sub",)}), NOW)
    assert sorted(bundle.files) == ["a.py", "sub/b.py"]
    assert bundle.warnings == partly.warnings


def test_files_that_have_other_names_are_no_loss() -> None:
    bundle = of_many()
    bundle.take_listing(listing(**{f"g{i}": "1" for i in range(6)}), NOW)
    assert (sorted(bundle.files), bundle.problem) == ([f"g{i}.py" for i in range(6)], None)


def test_what_a_commit_has_removed_is_meant_to_be_gone() -> None:
    bundle = of_many()
    bundle.settings = bundle.settings.model_copy(update={"kind": "git"})
    bundle.take_listing(many(*range(5)), NOW)
    assert (len(bundle.files), bundle.problem) == (1, None)


def test_a_file_that_is_passed_over_is_read_as_long_as_its_dags_are_known() -> None:
    """Files of before the rule, and those that lose the words while somebody edits them."""
    bundle = state()
    bundle.take_listing(listing(a="1"), NOW)
    bundle.parsed("a.py", result("1", "x"), NOW)
    later = NOW + timedelta(minutes=1)
    passed_over = Listing(digest="2", files={"a.py": "2", "script.py": "1"}, passed_over=("a.py", "script.py"))
    bundle.take_listing(passed_over, later)
    assert bundle.next_parses(later, ()) == ["a.py"]
    bundle.parsed("a.py", result("2"), later)
    bundle.take_listing(passed_over, later)
    assert bundle.files == {}


def test_scripts_that_are_passed_over_from_now_on_are_no_lost_mount() -> None:
    bundle = state()
    bundle.take_listing(listing(a="1", b="1", c="1", d="1", e="1"), NOW)
    for name in "abcde":
        bundle.parsed(f"{name}.py", result("1", *(["x"] if name == "a" else [])), NOW)
    files, scripts = {f"{name}.py": "1" for name in "abcde"}, tuple(f"{name}.py" for name in "bcde")
    bundle.take_listing(Listing(digest="2", files=files, passed_over=scripts), NOW + timedelta(minutes=1))
    assert (list(bundle.files), bundle.problem) == (["a.py"], None)
