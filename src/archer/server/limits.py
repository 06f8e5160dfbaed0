"""How much a client may ask for, and how long it may take; what operators choose is in `settings`."""

BODY = 1 << 20
"""Bytes of a request."""
DEPTH = 32
"""Brackets within brackets."""
VALUES = 1 << 18
"""Numbers, texts, lists and objects of a request: twice the ids that the longest context holds."""
CONTAINERS = 1 << 14
"""Lists and objects among them: 64 parts for each of the most messages."""
NAMES = 256
"""Fields of one object."""
MESSAGES = 256
ROWS = 16
"""Responses of one request: prompts times n."""
SAMPLES = 8
"""n."""
STOPS = 4
STOP_LENGTH = 64
"""Characters of a stop string."""
WHOLE = 1 << 63
"""Whole numbers of a request are below it, and at least its negative."""
SETTINGS = 64
"""Settings of a method."""
NUMBERS = 1 << 12
"""Numbers in a list, and lists in a list, of a method's setting."""
LABEL = 512
"""Characters of what a client may attach and nobody reads."""
LONG = 1 << 14
"""Characters of prompts above which they are encoded one request at a time, each owner's in turn."""
HEADERS = 16 << 10
"""Bytes of a request's first line and headers."""
PIECES = 1 << 12
"""Chunks or reads in which a body may come: each costs the event loop the same, however small it is."""
CONNECTIONS = 1024
HEADER_SECONDS = 30.0
"""A connection whose next request has not begun in earnest, with all its headers, by then is closed."""
BODY_SECONDS = 30.0
IDLE_SECONDS = 30.0
"""How long a connection is kept without a request."""
ALIVE_SECONDS = 10.0
"""A stream says that it is alive after so long a silence."""
SLOW_SECONDS = 30.0
"""A stream whose reader takes nothing for so long is cancelled."""
STATES = 1 << 18
"""Tokens of all states of all responses of a request, which a client may ask for."""
STRUCTURES = 2
"""Schemas, expressions and choices that are worked out at a time, each for another owner."""
BACKLOG = 256
"""Updates kept for a slow reader before they are merged."""
