"""The command line, put together."""

import typer

from . import backfills, bundles, dags, pools, processes, runs, tasks

app = typer.Typer(
    name="tidemill",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Airflow's contract, Temporal's guarantees: DAGs scheduled and run by durable workflows.",
)
app.add_typer(dags.app, name="dags")
app.add_typer(runs.app, name="runs")
app.add_typer(tasks.app, name="tasks")
app.add_typer(pools.app, name="pools")
app.add_typer(backfills.app, name="backfill")
app.add_typer(bundles.app, name="bundles")
app.command()(processes.worker)
app.command()(processes.dev)
app.command()(processes.demo)
app.command()(processes.doctor)
app.command()(processes.cleanup)
