"""What decoding gives: steps, completions, traces."""
