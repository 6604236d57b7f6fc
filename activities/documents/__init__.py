"""Searching folders of documents: the port, the activity `retrieve`, and the adapter behind it."""
