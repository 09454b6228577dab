"""Airflow's contract, Temporal's guarantees: DAGs that are scheduled and run by durable workflows.

What a DAG file needs is here; a worker of your own also wants `tidemill.worker.plugin`.

A name is imported when it is first used, so that the command line starts quickly; `__init__.pyi` lists them.
"""

import lazy_loader as _lazy_loader

from . import _checkout as _checkout

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
