"""Drawing the problems that the bundled models are trained on, and those that are published with them."""
