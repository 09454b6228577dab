"""The decisions of a run or a DAG, step by step, as they were made."""
