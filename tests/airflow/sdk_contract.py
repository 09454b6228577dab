"""What is relied on of Airflow's Task SDK, as the installed one has it, as JSON. For the Python with Airflow."""

import inspect
import json
import os
import typing

os.environ["_AIRFLOW__AS_LIBRARY"] = "1"

from airflow.sdk.execution_time import comms, supervisor, task_runner
from airflow.sdk.execution_time.comms import CommsDecoder


def messages(union: object) -> dict[str, dict[str, bool]]:
    """By type of message: its fields, and whether each has to be there."""
    members = typing.get_args(typing.get_args(union)[0])
    return {
        member.__name__: {name: field.is_required() for name, field in member.model_fields.items() if name != "type"}
        for member in sorted(members, key=lambda one: one.__name__)
    }


def main() -> None:
    functions = {
        f"{function.__module__}.{function.__qualname__}": [*inspect.signature(function).parameters]
        for function in (
            task_runner.run,
            task_runner.finalize,
            task_runner.RuntimeTaskInstance.get_template_context,
            task_runner._register_deserialization_allowed_classes,
            supervisor.block_orm_access,
            CommsDecoder.__init__,
        )
    }
    fields = {name: field.is_required() for name, field in task_runner.TIRunContext.model_fields.items()}
    print(
        json.dumps(
            {
                "to_supervisor": messages(comms.ToSupervisor),
                "to_task": messages(comms.ToTask),
                "run_context": fields,
                "functions": functions,
            },
            indent=1,
            sort_keys=True,
        )
    )


if __name__ == "__main__":
    main()
