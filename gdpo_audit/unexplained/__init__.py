"""Other explanations of logged advantages, for the logs in which no recipe makes them."""
