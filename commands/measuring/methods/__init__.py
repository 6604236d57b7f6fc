"""Methods side by side: the questions, the runs, the outcomes, the table."""
