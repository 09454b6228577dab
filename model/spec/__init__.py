"""What a DAG is, as data: what is stored, sent and shown. Written by `authoring`, or by hand as JSON."""
