"""Many runs over the same items: the request, the order of the runs, and their results."""
