"""The words, numbers, block characters and Markdown by which every run is shown alike."""
