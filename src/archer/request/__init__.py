"""What a user gives, checked before any work starts: prompts, gaps, options."""
