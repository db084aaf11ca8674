"""The composition root: builds one node out of its parts, starts them in order and stops them in reverse.

Only this package knows all the others. `node.Node` is the node itself, over any `Runtime`; `process.run` is a whole
operating-system process round one.
"""
