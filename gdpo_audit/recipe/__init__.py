"""What made the logged advantages: method, convention and weights, or that it is not known."""
