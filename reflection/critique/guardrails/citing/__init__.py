"""Citations, and whether they point at anything."""
