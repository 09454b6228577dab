"""DAGs of no-op Python functions in the shapes that are measured. Each call is a process of its own."""

from tidemill import DAG, chain, task


def noop() -> None:
    """Nothing."""


with DAG("bench_chain_20", max_active_tasks=1) as chain_20:
    steps = [task(task_id=f"t{i}")(noop)() for i in range(20)]
    chain(*steps)

with DAG("bench_fan_200", max_active_tasks=200) as fan_200:
    chain(
        task(task_id="first")(noop)(),
        [task(task_id=f"t{i}")(noop)() for i in range(200)],
        task(task_id="last")(noop)(),
    )
