"""How the text of a model is read: extraction of programs and answers, and comparison of answers.

Pure functions of text that use the standard library and each other, nothing else: graders send
their source to a confined process (`archer.tasks.reader`) and let no text of a model near their own.
"""
