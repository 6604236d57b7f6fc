"""What trains reflectors and reward models, serves them and scores with them."""
