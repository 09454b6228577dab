"""Tabs of tidemill's own inside the user interface: plain pages that need no script."""
