"""One run of one program: starting it, watching it, ending it, and saying what came of it."""
