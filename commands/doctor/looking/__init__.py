"""What is looked at: each area in a file of its own."""
