"""The HTTP server (extra `serve`): OpenAI's API over the engine, which computes on a thread of its own."""
