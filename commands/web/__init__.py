"""The page for people: who may come in, its addresses, and what each of them shows."""
