"""What a process is told by its environment, a settings file and a folder: read, checked, and explained."""
