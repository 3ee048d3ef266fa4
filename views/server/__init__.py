"""The parts of the server: guards, limits, and the processes that compute beside it."""
