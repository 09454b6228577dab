"""Imports one DAG file and prints the DAGs that it makes. A throw-away process, one for each parse.

The answer goes to the file descriptor that the parent names; standard output is the file's own.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from ..model.errors import InvalidInputError
from .dag_import import import_dags, source_of
from .isolated_call import describe_failure


def parse(path: Path) -> dict[str, Any]:
    try:
        dags = import_dags(path)
        source = source_of(path)
        return {"dags": [dag.spec(source=source).model_dump(mode="json") for dag in dags]}
    except InvalidInputError as error:
        return {"error": str(error)}
    except BaseException as error:
        failure = describe_failure(error)
        where = "".join(f"\n  {line}" for line in failure.traceback[-5:])
        return {"error": f"{failure.error_type}: {failure.message}{where}"}


def main() -> None:
    answer = parse(Path(sys.argv[1]))
    with os.fdopen(int(sys.argv[2]), "w") as out:
        json.dump(answer, out)
    os._exit(0)  # whatever the file started or registered to run at exit is not waited for


if __name__ == "__main__":
    main()
