"""Training reflectors and reward models, serving them, and scoring with them."""
