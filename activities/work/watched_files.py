"""Files that arrive below a folder or prefix: each of them is an event, once. Runs only in child processes."""

from base64 import urlsafe_b64encode
from datetime import datetime
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any

import fsspec

from ...model.asset.watching import PAGE, Sighting
from ...model.errors import InvalidInputError
from ...model.spec.assets.watchers import FilesTrigger

MAX_FILES = 10_000
"""What has been seen travels with each look: so many files, and no more."""
VERSIONS = ("ETag", "etag", "generation", "md5Hash", "checksum")
CHANGES = ("LastModified", "last_modified", "mtime", "updated", "modified", "created")


def look_at_files(trigger: FilesTrigger, position: Any, now: float) -> tuple[tuple[Sighting, ...], Any]:
    """The files below the trigger's folder that are not in *position*, a page of the oldest; and the position then.

    A folder that is not there has no files. Raises InvalidInputError for too many of them.
    """
    files, root = fsspec.core.url_to_fs(trigger.url, use_listings_cache=False)
    root = root.rstrip("/")
    listed = {path: info for path, info in _listing(files, root).items() if _is_meant(path, root, trigger.pattern)}
    if len(listed) > MAX_FILES:
        raise InvalidInputError(
            f"{trigger.url} has {len(listed):,} files that look like {trigger.pattern!r}: {MAX_FILES:,} can be "
            "watched. Move away what has been read, or give a narrower pattern"
        )
    known = {*(position or ())}
    digests = {path: _digest(path, info) for path, info in listed.items()}
    settled = now - trigger.settled_for.total_seconds()
    new = [path for path, digest in digests.items() if digest not in known and _changed(listed[path]) <= settled]
    new = sorted(new, key=lambda path: (_changed(listed[path]), path))[:PAGE]
    kept = {digest for path, digest in digests.items() if digest in known or path in new}
    found = tuple(_sighting(files.unstrip_protocol(path), listed[path], digests[path]) for path in new)
    return found, sorted(kept) if kept or position is not None else None


def _listing(files: Any, root: str) -> dict[str, dict[str, Any]]:
    files.invalidate_cache(root)
    try:
        found: dict[str, dict[str, Any]] = files.find(root, detail=True)
    except FileNotFoundError:
        return {}
    return found


def _is_meant(path: str, root: str, pattern: str) -> bool:
    name = path.removeprefix(root).lstrip("/")
    return bool(name) and fnmatchcase(name, pattern)


def _digest(path: str, info: dict[str, Any]) -> str:
    """What tells a file, as it is now, from all others; short, since there may be thousands."""
    version = next((str(info[name]) for name in VERSIONS if info.get(name)), None)
    state = f"{version or info.get('size')} {_changed(info)!r}"
    return urlsafe_b64encode(sha256(f"{path}\n{state}".encode()).digest()[:9]).decode()


def _changed(info: dict[str, Any]) -> float:
    """When it changed last, in seconds since 1970; 0 where its store does not say."""
    at = next((info[name] for name in CHANGES if info.get(name) is not None), 0.0)
    if isinstance(at, str):
        at = datetime.fromisoformat(at)
    return at.timestamp() if isinstance(at, datetime) else float(at)


def _sighting(url: str, info: dict[str, Any], digest: str) -> Sighting:
    return Sighting(key=digest, payload={"url": url, "size": info.get("size")})
