"""An embedded server and worker on this machine: `dev` and the demo."""
