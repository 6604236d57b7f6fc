"""The research path: a report with its citations, what is wrong with it, and how it is shown."""
