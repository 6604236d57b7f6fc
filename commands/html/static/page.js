// What every page does beside htmx. There is no inline script.
