"""A process of tidemill: how it begins, serves and shows how it is, and the one that is all in one."""
