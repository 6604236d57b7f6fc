"""Whether two versions of Mull do the same: `python -m bench.differential`."""
