"""What a pass costs, counted: operations, bytes, rooflines, published shapes. Pure."""
