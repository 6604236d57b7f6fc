"""Many runs over the same items: what is asked for, in which order, and what came of each."""
