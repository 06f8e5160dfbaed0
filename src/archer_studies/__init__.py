"""Every table and figure of the paper as a command.

A study measures (`measure`: models, runs, probes; plain data out) and presents (`present`: plain data in,
tables and figures out). What is measured is kept as JSON, so that every table can be made again from it.
`docs/reproducing.md` says which study is which table.
"""
