"""What a type checker makes of a DAG file: `make check` holds mypy to the comments here."""

from tidemill import DAG, task

with DAG("typed"):

    @task
    def numbers() -> list[int]:
        return [1]

    @task(retries=2)
    def total(values: list[int], scale: int) -> int:
        return sum(values) * scale

    @task.pyspark(master="local[2]")
    def rows(spark: object, path: str) -> int:
        return len(path)

    @task.bash
    def say(number: int) -> str:
        return f"echo {number}"

    good: int = total(numbers(), 3)
    say(good)
    rows("path")  # the session is not an argument of the call
    numbers >> total >> rows

    total("text", 3)  # type: ignore[arg-type]
    total(numbers())  # type: ignore[call-arg]
    total(say(1), 2)  # type: ignore[arg-type]
    wrong: str = total(numbers(), 1)  # type: ignore[assignment]
