"""One run, or all of them, by id: seen, steered, reported on."""
