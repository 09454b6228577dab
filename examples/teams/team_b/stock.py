"""A team that waits for another's asset, which everybody may, and keeps to its names otherwise."""

from tidemill import DAG, Asset, Variable, task

with DAG("b_stock", schedule=[Asset("a_sales")]):

    @task
    def count() -> int:
        """Reads a variable of the team's own."""
        return len(Variable.get("b_key"))

    count()
