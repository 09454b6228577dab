"""Paths that a file works out from its own place: above its folder, or not."""

import pytest
from tidemill.activities.work.outside import leaves_its_folder


@pytest.mark.parametrize(("text", "depth", "leaves"), [
    ("Path(__file__).parent", 0, False),
    ("Path(__file__).parent.parent", 0, True),
    ("Path(__file__).parent.parent", 1, False),
    ("pathlib.Path(__file__).resolve().parents[1] / 'x'", 0, True),
    ("Path(__file__).parents[1]", 1, False),
    ("os.path.dirname(os.path.dirname(os.path.abspath(__file__)))", 0, True),
    ("os.path.join(os.path.dirname(__file__), '..', 'sql')", 0, True),
    ("os.path.join(os.path.dirname(__file__), 'sql')", 0, False),
    ("Path(__file__).parent / '../sql'", 0, True),
    ("A = Path(__file__).parent\nB = A.parent", 0, True),
    ("A = os.path.dirname(__file__)\nB = os.path.dirname(A)", 1, False),
    ("Path('x').parent.parent.parent", 0, False),
    ("not python (", 0, False),
])  # fmt: skip
def test_how_far_up_a_path_leads(text: str, depth: int, leaves: bool) -> None:
    assert leaves_its_folder(text, depth) is leaves
