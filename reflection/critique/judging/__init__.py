"""A judge: what it is asked, what its reply says, and what a panel of them makes of a draft."""
