"""What a workflow answers to is what its interface says: names, arguments and answers."""

from typing import Any, get_args, get_origin, get_type_hints

import pytest
from temporalio import workflow
from tidemill.model.interfaces.asset import AssetInterface, WatcherInterface
from tidemill.model.interfaces.bundle import BundleInterface
from tidemill.model.interfaces.calls import Interface, Query, Signal, Update
from tidemill.model.interfaces.dag import DagInterface
from tidemill.model.interfaces.pool import PoolInterface
from tidemill.model.interfaces.run import RunInterface
from tidemill.model.spec.tasks.foreign import OWN_WORKFLOWS
from tidemill.workflows.asset import AssetWorkflow
from tidemill.workflows.bundle import DagBundleWorkflow
from tidemill.workflows.dag.workflow import DagWorkflow
from tidemill.workflows.pool import PoolWorkflow
from tidemill.workflows.run.workflow import DagRunWorkflow
from tidemill.workflows.watcher import WatcherWorkflow

HANDLED_BY: dict[type[Interface], type] = {
    AssetInterface: AssetWorkflow,
    BundleInterface: DagBundleWorkflow,
    DagInterface: DagWorkflow,
    PoolInterface: PoolWorkflow,
    RunInterface: DagRunWorkflow,
    WatcherInterface: WatcherWorkflow,
}


def handlers(kind: type) -> dict[str, tuple[Any, list[Any], Any]]:
    """By name: the kind of a handler, the types of its arguments, the type of its answer."""
    definition = workflow._Definition.must_from_class(kind)
    found = {name: (Query, each.arg_types, each.ret_type) for name, each in definition.queries.items()}
    found |= {name: (Update, each.arg_types, each.ret_type) for name, each in definition.updates.items()}
    found |= {name: (Signal, each.arg_types, None) for name, each in definition.signals.items()}
    return {str(name): (kind, [*(taken or [Any])], answer) for name, (kind, taken, answer) in found.items()}


def messages(interface: type[Interface]) -> dict[str, tuple[Any, list[Any], Any]]:
    found = {}
    for name, form in get_type_hints(interface).items():
        if (kind := get_origin(form)) in (Query, Update, Signal):
            arguments, *answer = get_args(form)
            found[getattr(interface, name).name] = (kind, [*arguments], answer[0] if answer else None)
    return found


@pytest.mark.parametrize("interface", HANDLED_BY, ids=lambda interface: interface.__name__)
def test_a_workflow_answers_to_its_interface(interface: type[Interface]) -> None:
    declared, handled = messages(interface), handlers(HANDLED_BY[interface])
    assert declared.keys() == handled.keys()
    for name, (kind, arguments, answer) in declared.items():
        of_kind, taken, answered = handled[name]
        if "typing.Any" in str(taken):  # it reads the request itself, to refuse it in words
            taken = arguments
        assert (name, kind, arguments, answer) == (name, of_kind, taken, answered)


def test_every_kind_of_workflow_has_one() -> None:
    assert {interface.workflow for interface in HANDLED_BY} == OWN_WORKFLOWS


def test_a_call_has_its_name_its_arguments_and_the_type_of_its_answer() -> None:
    call = DagInterface.upcoming(3)
    assert (call.name, call.arguments) == ("upcoming", (3,))
    assert call.answer is get_args(get_type_hints(DagInterface)["upcoming"])[-1]
