"""Finding the method that is best at its price, on one's own model and task.

`candidates` says what is tried, `halving` who goes on, `choice` which one is chosen: three pure files.
`search` runs what they ask for, in a folder that can be continued; `result` tells what came out.
"""
