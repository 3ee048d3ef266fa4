"""The search for the recipe of logged advantages: the method, the convention and the weights that made them."""
