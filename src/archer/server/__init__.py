"""The HTTP server: OpenAI's API over the engine, streams that never take text back, and a page to watch.

Needs the extra `serve`.  The event loop never computes; the engine does, on its own thread.
"""
