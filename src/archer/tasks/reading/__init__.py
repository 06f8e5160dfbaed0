"""How a model's text is read: pure functions whose source graders send to a confined process."""
