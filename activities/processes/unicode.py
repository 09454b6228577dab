"""Text that UTF-8 has: half of a pair, as names of files that are no UTF-8 come to, is written out as `\\udce9`."""

import json
from typing import Any


def holds_surrogates(text: str) -> bool:
    """Return whether *text* has half of a pair, which nothing can be encoded with."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def written_out(value: Any) -> Any:
    """Return *value*, plain data, with each half of a pair in its texts written out."""
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode() if holds_surrogates(value) else value
    if isinstance(value, dict):
        return {written_out(key): written_out(part) for key, part in value.items()}
    if isinstance(value, list):
        return [written_out(part) for part in value]
    return value


def plain_json(data: bytes | str) -> Any:
    """Return what *data* says, halves of pairs written out. Raises ValueError or RecursionError, as json does."""
    content = json.loads(data)
    escape = b"\\ud" if isinstance(data, bytes) else "\\ud"
    return written_out(content) if escape in data.lower() else content  # type: ignore[operator]
