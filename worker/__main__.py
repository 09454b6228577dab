"""The `tidemill` command."""

import os
import sys
import traceback

import typer

from ..model.errors import InvalidInputError


def main() -> None:
    """Runs the command line and ends the process with its exit code, whatever threads are left."""
    code = 0
    try:
        from .cli import app

        app()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except typer.Exit as end:
        code = end.exit_code
    except KeyboardInterrupt:
        code = 130
    except InvalidInputError as error:
        sys.stderr.write(f"error: {error}\n")
        code = 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # sdk-python#300: a client's threads can abort the interpreter's own way out, after all has gone well.
    os._exit(code)


if __name__ == "__main__":
    main()
