"""The properties that hold of every installation, each with a name: one catalogue for simulation and real histories."""
