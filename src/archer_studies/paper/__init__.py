"""The studies of the paper: its tables and figures, and what stands beside them."""
