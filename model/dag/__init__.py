"""The life of a DAG: its schedule, its runs, its backfills, and what may happen next."""
