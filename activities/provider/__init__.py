"""What providers send and refuse: replies, errors, formats, and what must not be repeated."""
