"""Who completes the problems of a run: this process, several processes, or workers of a Ray cluster.

An executor is no part of what a run is. Whoever evaluates holds the folder's lock and is the only one who
writes; an executor turns problems into records, in any order, each exactly once.
"""
