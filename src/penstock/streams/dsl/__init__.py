"""What a program is written in: streams, tables and groups, whose methods add nodes to a topology and compute
nothing.

`builder` is where a program begins; `stream`, `table`, `grouped` and `windowed` are what it holds in hand. Every
method checks what it is given at once, so that a slip is found on the line where it stands and not when records
arrive.
"""
