"""Looking for events of assets outside of tidemill: one file for each kind of place."""
