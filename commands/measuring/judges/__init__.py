"""Judges beside labels: the file, the evaluations, the numbers, the table and the page."""
