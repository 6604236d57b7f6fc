"""What a rule, a judge or a method is worth, on data of your own."""
