"""A file that takes a while to import, and looks a secret up meanwhile."""

import time

from tidemill import DAG, Variable, task

PASSWORD = Variable.get("warehouse_password", default="none")
time.sleep(0.1)

with DAG("slow_import", heartbeat_timeout=4):

    @task
    def tell(number: int) -> None:
        print(f"the password of {number} is {PASSWORD}")

    tell.expand(number=[1, 2, 3, 4, 5, 6])
