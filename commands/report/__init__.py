"""A whole run in one HTML file that needs nothing else: to keep, send and print."""
