"""How good a judge is: its scores beside the labels that people gave."""
