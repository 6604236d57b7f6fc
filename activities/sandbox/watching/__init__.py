"""What a run takes while it goes on, seen from outside: processes, memory, files."""
