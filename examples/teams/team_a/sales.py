"""A team that keeps to its names."""

from tidemill import DAG, Asset, Variable, task

with DAG("a_sales"):

    @task(outlets=[Asset("a_sales")], pool="a_pool")
    def load() -> str:
        """Reads a variable of the team's own."""
        return f"loaded with {Variable.get('a_key')}"

    load()
