"""The composition root: builds one node from its parts, starts them in order and stops them in reverse.

Only this package knows all the others. `node.Node` is the node, on any `Runtime`; `process.run` runs it as an
operating-system process.
"""
