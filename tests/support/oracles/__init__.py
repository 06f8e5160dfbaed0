"""Published decoding rules written as slow loops over plain lists."""
