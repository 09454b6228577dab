"""The DAG file that a fork server tries itself out with."""

from tidemill import DAG, task

with DAG("warm_up"):

    @task
    def answer(text: str, ds: str | None = None) -> dict[str, str | None]:
        return {"text": text, "ds": ds}

    answer("{{ ds }} {{ data_interval_end | string }} {{ macros.ds_add(ds, 1) }}")
