"""What a sandboxed program may ask of the kernel, and how its folders are kept and cleared."""
