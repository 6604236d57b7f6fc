"""Searching folders of documents: the adapter behind the port `activities.documents`."""
