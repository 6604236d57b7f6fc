"""What pages look like: templates, styles, scripts, and the renderer of a sheet."""
