"""The reflection on a report: what is asked of it, and what it says."""
