"""What the site does beside mkdocs: takes along the files that pages point to outside of docs/, and lists decisions."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")
OUTSIDE = "repository"
"""The folder of the site that has them."""


def outside(page: Path, target: str) -> Path | None:
    """The file or folder of the project that *target* means on *page*, if it is outside of docs/."""
    if re.match(r"[a-z]+:|/", target):
        return None
    found = (page.parent / target).resolve()
    is_outside = found.is_relative_to(ROOT) and not found.is_relative_to(ROOT / "docs")
    return found if is_outside and found.exists() else None


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Adds each file of the project that a page points to, as plain text."""
    added: set[Path] = set()
    for file in [*files.documentation_pages()]:
        page = Path(str(file.abs_src_path))
        for _text, target, _anchor in LINK.findall(page.read_text()):
            found = outside(page, target)
            if found is not None and found.is_file() and found not in added:
                added.add(found)
                files.append(File.generated(config, _name(found), content=found.read_text()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Points at the copies; of a folder, which has no page, only its name is left."""
    path = Path(page.file.abs_src_path)

    def pointed(match: re.Match[str]) -> str:
        text, target, anchor = match.groups()
        found = outside(path, target)
        if found is None:
            return match[0]
        if not found.is_file():
            return text if text.startswith("`") else f"`{text}`"
        up = "../" * page.file.src_uri.count("/")
        return f"[{text}]({up}{_name(found)}{anchor or ''})"

    return LINK.sub(pointed, markdown)


def _name(found: Path) -> str:
    return f"{OUTSIDE}/{found.relative_to(ROOT).as_posix()}.txt"


def on_config(config: Any, **_: Any) -> Any:
    """Lists the decision records, by number."""
    _list_decisions(config.nav)
    return config


def _list_decisions(nav: list[Any]) -> None:
    for entry in nav:
        for title, under in entry.items() if isinstance(entry, dict) else ():
            if under == "decisions/":
                entry[title] = [f"decisions/{path.name}" for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
            elif isinstance(under, list):
                _list_decisions(under)
