"""A bundle: a folder or repository of DAG files."""
