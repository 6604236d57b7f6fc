"""What each command of the command line does, and how a run is shown."""
