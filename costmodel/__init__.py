"""Description -> seconds: what a forward pass costs, and what follows from it.

Knows `(n_past, n_rows, n_out)` and never a decoding loop.
"""
