"""Draws DAG files of Airflow's with mapped groups, by a seed: rules, failures, skips, branches, setups, teardowns."""

from __future__ import annotations

import itertools
from random import Random

HEAD = """
from airflow.sdk import DAG, TaskGroup, task, task_group
from airflow.sdk.exceptions import AirflowSkipException

@task
def source(values, how):
    if how == "fail":
        raise ValueError("there is nothing")
    if how == "skip":
        raise AirflowSkipException
    return values

@task
def act(n, plan):
    how = plan.get(str(n), plan.get("else"))
    if how == "fail":
        raise ValueError(f"{n} fails")
    if how == "skip":
        raise AirflowSkipException
    return n

@task.branch
def choose(n, plan):
    return plan.get(str(n), [])

@task.short_circuit
def goes_on(n, plan):
    return plan.get(str(n), True)
"""
RULES = (
    "all_success", "all_success", "all_success", "all_done", "one_success", "one_failed", "none_failed",
    "none_failed_min_one_success", "all_failed", "none_skipped", "all_skipped", "one_done", "all_done_min_one_success",
)  # fmt: skip


def dag_file(seeds: range) -> str:
    """The text of a DAG file with a DAG for each of *seeds*."""
    return HEAD + "".join(_Drawn(Random(seed), f"mapped_{seed}").text() for seed in seeds)


class _Drawn:
    """One DAG."""

    def __init__(self, random: Random, dag_id: str) -> None:
        self.random, self.dag_id = random, dag_id
        self.values = list(range(random.choice((0, 1, 2, 2, 3, 3))))

    def text(self) -> str:
        lines = [f"with DAG({self.dag_id!r}, schedule=None, catchup=False):"]
        given = repr(self.values) if self.values and self.random.random() < 0.4 else None
        if given is None:
            how = self.random.choices(("", "fail", "skip"), (8, 1, 1))[0]
            lines.append(f"    given = source({self.values!r}, {how!r})")
        lines += ["    @task_group(group_id='g')", "    def g(n):", *(f"        {line}" for line in self._group())]
        lines.append(f"    whole = g.expand(n={given or 'given'})")
        lines.append(f"    after = {self._act('after', '0')}")
        lines.append("    whole >> after")
        if self.random.random() < 0.4:
            lines.append(f"    beside = {self._act('beside', '0')}")
            lines.append(f"    beside >> {self.random.choice(('after', 'whole'))}")
        if self.random.random() < 0.3:
            lines.append(f"    last = {self._act('last', '0')}")
            lines.append("    after >> last")
        return "\n" + "\n".join(lines) + "\n"

    def _group(self) -> list[str]:
        number = self.random.randint(2, 5)
        names = [f"t{n}" for n in range(number)]
        inner = self.random.choice(names[1:]) if self.random.random() < 0.25 else None
        sets_up = number > 2 and self.random.random() < 0.35
        ends = (names[0], names[-1]) if sets_up else ()
        lines, edges = [], []
        for index, name in enumerate(names):
            edges += [f"{other} >> {name}" for other in names[:index] if self.random.random() < 0.5]
            later = [self._id(other, inner) for other in names[index + 1 :]]
            made = self._act(name, "n", sets_up) if name in ends else self._task(name, later, plain_rule=sets_up)
            lines += ["with TaskGroup('inner'):", f"    {name} = {made}"] if name == inner else [f"{name} = {made}"]
        if sets_up:
            failing = ", on_failure_fail_dagrun=True" if self.random.random() < 0.3 else ""
            edges = [edge for edge in edges if edge != f"{names[0]} >> {names[-1]}"]
            edges.append(f"{names[-1]}.as_teardown(setups={names[0]}.as_setup(){failing})")
            far = self.random.random() < 0.5  # the others are set up and torn down by way of those in between
            chain = names[1:-1]
            edges += [f"{one} >> {other}" for one, other in itertools.pairwise(chain) if far]
            edges += [f"{names[0]} >> {name}" for name in (chain[:1] if far else chain)]
            edges += [f"{name} >> {names[-1]}" for name in (chain[-1:] if far else chain)]
        return lines + edges

    def _id(self, name: str, inner: str | None) -> str:
        return f"g.inner.{name}" if name == inner else f"g.{name}"

    def _task(self, name: str, later: list[str], *, plain_rule: bool) -> str:
        kind = self.random.random()
        if later and kind < 0.15:
            plan = {str(n): self.random.sample(later, self.random.randint(0, len(later))) for n in self.values}
            return f"choose.override(task_id={name!r})(n, {plan!r})"
        if later and kind < 0.3:
            goes_on = {str(n): self.random.random() < 0.5 for n in self.values}
            ignore = self.random.random() < 0.5
            return f"goes_on.override(task_id={name!r}, ignore_downstream_trigger_rules={ignore})(n, {goes_on!r})"
        return self._act(name, "n", plain_rule)

    def _act(self, name: str, given: str, plain_rule: bool = False) -> str:
        plan = {str(n): self.random.choices(("", "fail", "skip"), (6, 2, 2))[0] for n in self.values or [0]}
        rule = "all_success" if plain_rule else self.random.choice(RULES)
        return f"act.override(task_id={name!r}, trigger_rule={rule!r})({given}, {plan!r})"
