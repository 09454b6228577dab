"""Run by another interpreter: calls a function that was left in a folder, and leaves there what it returned.

Only the standard library, of any Python that may be asked: nothing else is there.
"""

import importlib
import json
import os
import sys
import traceback


def main(folder: str, serializer: str) -> int:
    """The exit code."""
    sys.path.insert(0, folder)
    try:
        data = importlib.import_module(serializer)
        with open(os.path.join(folder, "name")) as file:  # noqa: PTH118, PTH123
            name = file.read()
        with open(os.path.join(folder, "call"), "rb") as file:  # noqa: PTH118, PTH123
            call = data.load(file)
        result = getattr(importlib.import_module("function"), name)(*call["args"], **call["kwargs"])
        written = data.dumps(result, protocol=4)
    except Exception as error:
        traceback.print_exc()
        failure = {"type": type(error).__name__, "message": str(error)}
        with open(os.path.join(folder, "failure.json"), "w") as file:  # noqa: PTH118, PTH123
            json.dump(failure, file)
        return 1
    with open(os.path.join(folder, "result"), "wb") as file:  # noqa: PTH118, PTH123
        file.write(written)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
