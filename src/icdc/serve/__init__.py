"""Solving over HTTP: the service of `icdc serve`, its page, and what keeps both in bounds.

A request becomes an `Order`; orders wait in a bounded queue; those that are alike go to a worker together. Workers are
processes of their own, one for each device, that keep their models loaded and take the one solve path.

Nothing is imported here: a worker process reads this module before it has said how many threads it wants.
"""
